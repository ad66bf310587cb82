// Fused attention on a GPU compared with the composed form in float64 on the CPU, and its promises.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/attention/kernels.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr DType kDTypes[] = {kBFloat16, kFloat16, kFloat32};  // the last in TF32

class FusedAttentionCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
#if defined(ADJOINT_WITH_CUDA)
    if (!cuda::takes_attention(kBFloat16, 64, 64, 0)) GTEST_SKIP() << "needs sm_90";
#endif
  }
  PrecisionGuard tf32_{Precision::kTF32};
};

struct Case {
  std::int64_t queries, keys, query_extent = 64, value_extent = 64;
  std::int64_t batch = 1, heads = 2, shared_heads = 2;
};

// Heads are neighbours in memory, as layers make them.
Tensor heads_of(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t extent, DType dtype) {
  return (Tensor::randn({batch, rows, heads, extent}) * 1.5).to(dtype).transpose(1, 2);
}

Tensors operands_of(const Case& c, DType dtype) {
  return {heads_of(c.batch, c.heads, c.queries, c.query_extent, dtype),
          heads_of(c.batch, c.shared_heads, c.keys, c.query_extent, dtype),
          heads_of(c.batch, c.shared_heads, c.keys, c.value_extent, dtype)};
}

// The result and the gradients. The loss is the sum of the result times fixed numbers.
Tensors computed(const Tensors& operands, const AttentionOptions& options, DType dtype, Device device) {
  const auto there = [&](const Tensor& x) {
    return x.defined() ? x.to(device).to(x.dtype() == kBool ? kBool : dtype) : x;
  };
  Tensors in;
  for (const Tensor& x : operands) in.push_back(there(x).detach().requires_grad_());
  const Tensor mask = there(options.attn_mask);
  const GeneratorGuard guard(Generator(9));
  Tape tape;
  AttentionOptions own = options;
  own.attn_mask = mask;
  own.enable_gqa = true;
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], own);
  const Tensor slopes =
      Tensor::from_vector(reals(y.numel(), 5), y.shape(), {.dtype = kFloat64}).to(operands[0].dtype());
  Tensors all = tape.gradient(y, in, {.grad_output = slopes.to(dtype).to(device)});
  all.insert(all.begin(), y.detach());
  for (Tensor& x : all) x = x.to(kCPU);
  return all;
}

void check(const Case& c, const AttentionOptions& options = {}) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(to_string(dtype) + ": " + std::to_string(c.queries) + " queries, " + std::to_string(c.keys) +
                 " keys, " + std::to_string(c.query_extent) + " and " + std::to_string(c.value_extent) + " elements");
    manual_seed(4);
    AttentionOptions own = options;
    if (own.attn_mask.defined() && own.attn_mask.dtype() != kBool) own.attn_mask = own.attn_mask.to(dtype);
    const Tensors operands = operands_of(c, dtype);
    const Tensors got = computed(operands, own, dtype, kCUDA), expected = computed(operands, own, kFloat64, kCPU);
    const double tolerance = dtype == kBFloat16 ? 0.012 : 0.002;
    // Terms of about this size cancel in the gradients of scores without gradient.
    const double least = c.queries == 1 || c.keys == 1 ? 12.0 : 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double largest = std::max(expected[i].abs().amax().item<double>(), i == 0 ? 0.0 : least);
      expect_near(i == 0 ? "result" : "gradient", got[i], expected[i].to_vector<double>(),
                  tolerance * largest * (i == 0 ? 1 : 2));
    }
  }
}

TEST_F(FusedAttentionCuda, EveryLengthAndExtent) {
  for (const bool is_causal : {false, true}) {
    for (const std::int64_t queries : {1, 37, 1000}) {
      for (const std::int64_t keys : {1, 37, 1000}) check({queries, keys}, {.is_causal = is_causal});
    }
    for (const std::int64_t extent : {8, 32, 80, 96, 128, 160, 256}) {
      check({.queries = 300, .keys = 200, .query_extent = extent, .value_extent = extent}, {.is_causal = is_causal});
    }
  }
  check({.queries = 100, .keys = 150, .query_extent = 64, .value_extent = 200});
}

TEST_F(FusedAttentionCuda, MasksAndQueriesThatSeeNoKey) {
  for (const std::int64_t extent : {64, 128, 256}) {
    const Case c{.queries = 150, .keys = 333, .query_extent = extent, .value_extent = extent, .batch = 2};
    manual_seed(6);
    Tensor seen = Tensor::rand({c.batch, 1, c.queries, c.keys}) < 0.7;
    seen = logical_and(seen, Tensor::arange(0, static_cast<double>(c.queries), 1).unsqueeze(1) != 3.0);
    check(c, {.attn_mask = seen});
    check(c, {.attn_mask = seen.select(0, 0).select(0, 0)});
    const Tensor added = where(seen, Tensor::randn(seen.shape()), -std::numeric_limits<double>::infinity());
    check(c, {.attn_mask = added});
    // A row of one huge number is no mask: its keys have equal weights.
    check(c, {.attn_mask = where(seen, Tensor::zeros(seen.shape()), -60000.0)});
  }
}

TEST_F(FusedAttentionCuda, HeadsThatShareOthers) {
  check({.queries = 200, .keys = 300, .batch = 2, .heads = 6, .shared_heads = 2}, {.is_causal = true});
  check({.queries = 200, .keys = 300, .query_extent = 128, .value_extent = 128, .heads = 4, .shared_heads = 1});
}

TEST_F(FusedAttentionCuda, DropsTheWeightsOfTheComposedForm) {
  check({.queries = 150, .keys = 201}, {.dropout_p = 0.3});
  check({.queries = 150, .keys = 200, .query_extent = 128, .value_extent = 128}, {.dropout_p = 0.5, .is_causal = true});
  check({.queries = 150, .keys = 200, .query_extent = 256, .value_extent = 256}, {.dropout_p = 0.1});
  check({.queries = 40, .keys = 50}, {.dropout_p = 1.0});
}

TEST_F(FusedAttentionCuda, BroadcastsAndTakesAnyRank) {
  manual_seed(8);
  const Tensor query = Tensor::randn({2, 3, 4, 50, 64}), key = Tensor::randn({3, 1, 60, 64}),
               value = Tensor::randn({60, 72});
  for (const DType dtype : kDTypes) {
    const auto on = [&](const Tensor& x) { return x.to(dtype).to(kCUDA); };
    const auto wide = [&](const Tensor& x) { return x.to(dtype).to(kFloat64); };
    const Tensor got = scaled_dot_product_attention(on(query), on(key), on(value));
    const Tensor expected = scaled_dot_product_attention(wide(query), wide(key), wide(value));
    EXPECT_EQ(got.shape(), expected.shape());
    expect_near("result", got.to(kCPU), expected.to_vector<double>(), dtype == kBFloat16 ? 0.02 : 0.003);
  }
  const Tensor none = Tensor::zeros({2, 0, 64}, {.dtype = kBFloat16, .device = kCUDA});
  const Tensor blind = scaled_dot_product_attention(Tensor::ones({2, 5, 64}, none.options()), none, none);
  expect_values("no keys", blind.to(kCPU), std::vector<double>(2 * 5 * 64, 0.0));
}

TEST_F(FusedAttentionCuda, HasTheSameBitsInEveryRun) {
  for (const DType dtype : kDTypes) {
    manual_seed(4);
    const Tensors operands = operands_of({.queries = 700, .keys = 900, .heads = 8, .shared_heads = 4}, dtype);
    const AttentionOptions options{.dropout_p = 0.2, .is_causal = true};
    const Tensors first = computed(operands, options, dtype, kCUDA);
    for (int run = 0; run < 20; ++run) {
      const Tensors again = computed(operands, options, dtype, kCUDA);
      for (std::size_t i = 0; i < first.size(); ++i) expect_same_bits("run", again[i], first[i]);
    }
  }
}

TEST_F(FusedAttentionCuda, DrawsNewNumbersInReplays) {
  std::vector<Tensors> results[2];
  for (const bool graphed : {false, true}) {
    manual_seed(4);
    const Tensors operands = operands_of({.queries = 70, .keys = 90}, kBFloat16);
    Tensors in;
    for (const Tensor& x : operands) in.push_back(x.to(kCUDA).contiguous());
    const GeneratorGuard guard(Generator(77));
    const auto function = [](const Tensors& given) -> Tensors {
      Tensors leaves;
      for (const Tensor& x : given) leaves.push_back(x.detach().clone().requires_grad_());
      Tape tape;
      const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.dropout_p = 0.5});
      Tensors all = tape.gradient((y * y).sum(), leaves);
      all.push_back(y.detach());
      return all;
    };
    GraphedStep step(function, {.device = kCUDA});
    for (int i = 0; i < 5; ++i) {
      Tensors now = graphed ? step(in) : function(in);
      for (Tensor& x : now) x = x.to(kCPU);
      results[graphed ? 1 : 0].push_back(now);
    }
  }
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t t = 0; t < 4; ++t) expect_same_bits("replay", results[1][i][t], results[0][i][t]);
    if (i == 0) continue;
    EXPECT_FALSE((results[1][i][3] == results[1][i - 1][3]).all().item<bool>());
  }
}

TEST_F(FusedAttentionCuda, ASweepThatIsRecordedDifferentiatesAgain) {
  manual_seed(4);
  const Tensors operands = operands_of({.queries = 20, .keys = 30}, kFloat32);
  const auto second = [&](DType dtype, Device device) {
    Tensors in;
    for (const Tensor& x : operands) in.push_back(x.to(dtype).to(device).detach().requires_grad_());
    const GeneratorGuard guard(Generator(9));
    Tape tape;
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.dropout_p = 0.25});
    const Tensors first = tape.gradient((y * y).sum(), in, {.retain = true, .record = true});
    Tensors found = tape.gradient((first[0] * first[0]).sum() + (first[2] * first[1]).sum(), in);
    for (Tensor& x : found) x = x.to(kCPU);
    return found;
  };
  const Tensors got = second(kFloat32, kCUDA), expected = second(kFloat64, kCPU);
  for (std::size_t i = 0; i < 3; ++i) {
    expect_near("second", got[i], expected[i].to_vector<double>(), 0.02 * expected[i].abs().amax().item<double>());
  }
}

TEST_F(FusedAttentionCuda, MemoryIsLinearInTheSequence) {
  for (const DType dtype : kDTypes) {
    const Shape shape{1, 4, 8192, 64};
    Tensors in;
    for (int i = 0; i < 3; ++i) in.push_back(Tensor::randn(shape, {.device = kCUDA}).to(dtype).requires_grad_());
    const Tensor slopes = Tensor::ones(shape, {.dtype = dtype, .device = kCUDA});
    const auto bytes = static_cast<std::size_t>(shape.numel() * element_size(dtype));
    const std::size_t before = memory_stats(kCUDA).in_use;
    reset_peak_memory_stats(kCUDA);
    {
      Tape tape;
      const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.dropout_p = 0.1, .is_causal = true});
      const Tensors gradients = tape.gradient(y, in, {.grad_output = slopes});
    }
    // The result, three gradients, and three numbers for each query.
    EXPECT_LE(memory_stats(kCUDA).peak - before, 4 * bytes + 3 * 4 * 8192 * sizeof(float) + (1 << 16));
  }
}

}  // namespace
}  // namespace adjoint::testing
