// Rotary embeddings: relative positions, long sequences, and 16-bit dtypes.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/matmul/rotary.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace adjoint {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

TEST(RotaryEmbedding, ProductsDependOnDistances) {
  manual_seed(1);
  for (const bool interleaved : {false, true}) {
    const Tensor query = Tensor::randn({1, 8}, {.dtype = kFloat64}), key = Tensor::randn({1, 8}, {.dtype = kFloat64});
    const auto product = [&](std::int64_t of_query, std::int64_t of_key) {
      return (rotary_embedding(query, {.offset = of_query, .interleaved = interleaved}) *
              rotary_embedding(key, {.offset = of_key, .interleaved = interleaved}))
          .sum();
    };
    expect_near("the same distance", product(1003, 1000), {product(3, 0).item<double>()}, 1e-10);
    EXPECT_GT(abs(product(4, 0) - product(3, 0)).item<double>(), 1e-3);
    expect_same_bits("position 0", rotary_embedding(query, {.interleaved = interleaved}), query);
  }
}

TEST(RotaryEmbedding, GoesOnAtAnOffset) {
  const Tensor x = Tensor::randn({2, 7, 4});
  const Tensor whole = rotary_embedding(x);
  expect_same_bits("rest", rotary_embedding(x.narrow(1, 3, 4), {.offset = 3}), whole.narrow(1, 3, 4));
  const Tensor places = Tensor::from_vector<std::int64_t>({6, 0}, {2});
  const Tensor ends = flip(x, {1}).index({kEllipsis, Slice(0, 7, 6), Slice()});
  expect_same_bits("places", flip(rotary_embedding(ends, {.positions = places}), {1}),
                   whole.index({kEllipsis, Slice(0, 7, 6), Slice()}));
}

TEST(RotaryEmbedding, IsRoundedOnceAtAnyPosition) {
  manual_seed(2);
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Tensor x = Tensor::randn({3, 8}).to(dtype);
    const Tensor exact = rotary_embedding(x.to(kFloat64), {.offset = 100000});
    const Tensor found = rotary_embedding(x, {.offset = 100000});
    EXPECT_EQ(found.dtype(), dtype);
    const double unit = dtype == kFloat16 ? 0x1p-11 : dtype == kBFloat16 ? 0x1p-8 : 0x1p-22;
    expect_near(to_string(dtype), found, exact.to_vector<double>(), 1.01 * unit);
  }
  const AutocastGuard autocast(kBFloat16);
  EXPECT_EQ(rotary_embedding(Tensor::ones({2, 4})).dtype(), kFloat32);
}

}  // namespace
}  // namespace adjoint
