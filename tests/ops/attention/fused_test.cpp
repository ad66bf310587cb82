// The fused operator's table: its results and gradients in operators, which any device computes.
#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/attention/fused.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_near;

enum class Sees { kAll, kCausal, kBool, kAdded };

struct Case {
  Sees sees;
  double dropout_p;
};
constexpr Case kCases[] = {{Sees::kAll, 0.0},   {Sees::kCausal, 0.0}, {Sees::kBool, 0.0},
                           {Sees::kAdded, 0.0}, {Sees::kAll, 0.4},    {Sees::kBool, 0.4}};

constexpr double kScale = 0.7;
constexpr std::uint64_t kSeed = 11, kOffset = 3;

// Two heads of queries share one of keys; query 1 sees no key.
struct Operands {
  std::vector<Tensor> inputs{Tensor::from_vector(testing::reals(24, 1), {1, 2, 3, 4}, {.dtype = kFloat64}),
                             Tensor::from_vector(testing::reals(16, 2), {1, 1, 4, 4}, {.dtype = kFloat64}),
                             Tensor::from_vector(testing::reals(20, 3), {1, 1, 4, 5}, {.dtype = kFloat64})};
  Tensor mask;

  explicit Operands(const Case& c) {
    if (c.sees != Sees::kBool && c.sees != Sees::kAdded) return;
    const bool added = c.sees == Sees::kAdded;
    std::vector<double> values = testing::reals(12, 4);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool seen = i / 4 != 1 && i % 4 != 2;
      values[i] = !added ? (seen ? 1.0 : 0.0) : seen ? values[i] : -std::numeric_limits<double>::infinity();
    }
    mask = Tensor::from_vector(values, {3, 4}, {.dtype = added ? kFloat64 : kBool}).expand({1, 2, 3, 4});
  }
};

Tensor fused(const std::vector<Tensor>& in, const Tensor& mask, const Case& c) {
  AttentionAttr attr{.scale = kScale, .dropout_p = c.dropout_p, .is_causal = c.sees == Sees::kCausal};
  attr.at = {kSeed, kOffset, nullptr};
  return detail::fused_attention(in[0], in[1], in[2], mask, attr);
}

TEST(FusedAttention, EqualsTheComposedForm) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(static_cast<int>(c.sees));
    const Operands operands(c);
    std::vector<Tensor> results, gradients[2];
    for (const bool is_fused : {false, true}) {
      std::vector<Tensor> in;
      for (const Tensor& t : operands.inputs) in.push_back(t.clone().requires_grad_());
      Generator generator(kSeed);
      generator.seek(kOffset);
      const GeneratorGuard guard(generator);
      Tape tape;
      results.push_back(is_fused ? fused(in, operands.mask, c)
                                 : scaled_dot_product_attention(in[0], in[1], in[2],
                                                                {.attn_mask = operands.mask,
                                                                 .dropout_p = c.dropout_p,
                                                                 .is_causal = c.sees == Sees::kCausal,
                                                                 .scale = kScale,
                                                                 .enable_gqa = true}));
      tape.backward((results.back() * results.back()).sum());
      for (const Tensor& t : in) gradients[is_fused ? 1 : 0].push_back(t.grad());
    }
    expect_near("result", results[1], results[0].to_vector<double>(), 1e-14);
    for (std::size_t i = 0; i < 3; ++i) {
      expect_near("gradient", gradients[1][i], gradients[0][i].to_vector<double>(), 1e-13);
    }
  }
}

TEST(FusedAttention, HasTheRightGradientsToTheSecondOrder) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(static_cast<int>(c.sees));
    const Operands operands(c);
    const auto f = [&](const std::vector<Tensor>& in) { return fused(in, operands.mask, c); };
    EXPECT_TRUE(gradcheck(f, operands.inputs));
    EXPECT_TRUE(gradgradcheck(f, operands.inputs));
  }
}

}  // namespace
}  // namespace adjoint
