// Attention with a query that sees no key.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_values;

constexpr double kBlind = -HUGE_VAL;

Tensor made(const Shape& shape, DType dtype) { return Tensor::randn(shape, {.dtype = dtype}).requires_grad_(); }

bool all_finite(const Tensor& x) { return isfinite(x).all().item<bool>(); }

// Row 0 of 3 sees key 1 of 2 only, and row 2 both; row 1 sees no key.
Tensor mask_of(DType dtype) {
  const Tensor seen = Tensor::from_vector<double>({0, 1, 0, 0, 1, 1}, {3, 2}, {.dtype = kBool});
  return dtype == kBool ? seen : where(seen, Tensor::full({1}, 0.5, {.dtype = dtype}), kBlind);
}

TEST(Attention, AQueryThatSeesNoKeyGivesZeroAndNoGradient) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const DType of_mask : {kBool, dtype}) {
      SCOPED_TRACE(to_string(dtype) + ", mask of " + to_string(of_mask));
      manual_seed(3);
      const Tensor query = made({2, 3, 4}, dtype), key = made({2, 2, 4}, dtype), value = made({2, 2, 5}, dtype);
      const Tensor mask = mask_of(of_mask);
      if (of_mask != kBool) Tensor(mask).requires_grad_();
      Tape tape;
      const Tensor out = scaled_dot_product_attention(query, key, value, mask);
      expect_values("blind", out.select(1, 1), std::vector<double>(10, 0.0));
      expect_values("one key", out.select(1, 0), value.select(1, 1).to_vector<double>());
      backward(square(out.to(kFloat32)).sum());  // the loss reads the row
      for (const Tensor& leaf : {query, key, value}) EXPECT_TRUE(all_finite(leaf.grad()));
      expect_values("its query", query.grad().select(1, 1), std::vector<double>(8, 0.0));
      if (of_mask != kBool) {
        EXPECT_TRUE(all_finite(mask.grad()));
        expect_values("its mask", mask.grad()[1], {0, 0});
      }
      // The other rows equal those without it.
      const Tensor rest = scaled_dot_product_attention(query.narrow(1, 2, 1), key, value, mask_of(of_mask)[2]);
      testing::expect_same_bits("sees both", out.narrow(1, 2, 1), rest);
    }
  }
}

TEST(Attention, MasksOfEveryShapeThatBroadcastsMayBeBlind) {
  const Tensor query = made({3, 4}, kFloat64), key = made({2, 4}, kFloat64), value = made({2, 5}, kFloat64);
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{2}, Shape{3, 1}, Shape{1, 2}, Shape{3, 2}}) {
    SCOPED_TRACE(to_string(shape));
    for (const Tensor& mask :
         {Tensor::zeros(shape, {.dtype = kBool}), Tensor::full(shape, kBlind, {.dtype = kFloat64})}) {
      expect_values("blind", scaled_dot_product_attention(query, key, value, mask), std::vector<double>(15, 0.0));
    }
  }
  expect_values("no keys",
                scaled_dot_product_attention(query, Tensor::zeros({0, 4}, query.options()),
                                             Tensor::zeros({0, 5}, query.options()),
                                             Tensor::zeros({3, 0}, {.dtype = kBool})),
                std::vector<double>(15, 0.0));
}

TEST(Attention, DerivativesOfBlindRowsAreRightToTheSecondOrder) {
  manual_seed(3);
  const Tensor seen = mask_of(kBool), added = mask_of(kFloat64);
  const std::vector<Tensor> inputs = {made({3, 4}, kFloat64), made({2, 4}, kFloat64), made({2, 5}, kFloat64)};
  for (const Tensor& mask : {seen, added}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], mask);
    };
    EXPECT_TRUE(gradcheck(f, inputs));
    EXPECT_TRUE(gradgradcheck(f, inputs));
  }
}

TEST(Attention, WithEveryWeightDroppedGivesZeroAndNoGradient) {
  const Tensor query = made({3, 4}, kFloat64), key = made({2, 4}, kFloat64), value = made({2, 5}, kFloat64);
  Tape tape;
  const Tensor out = scaled_dot_product_attention(query, key, value, {}, 1.0);
  expect_values("dropped", out, std::vector<double>(15, 0.0));
  backward(out.sum());
  expect_values("key", key.grad(), std::vector<double>(8, 0.0));
}

}  // namespace
}  // namespace adjoint
