// CPU against CUDA over the whole case table, gradients on the GPU, and the same bits from run to run.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_trio.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

// Integers are exact in float64; rounded once, they are the results that every other dtype must give.
void expect_cpus_integers(const ConvCase& c) {
  const ConvProblem p = integer_problem(geometry(c));
  const TrioValues cpu = values_of(run_trio(p, {.dtype = kFloat64}));
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    expect_trio_values(run_trio(p, {.dtype = dtype, .device = kCUDA}), cpu);
  }
}

void expect_near_and_repeatable_on_reals(const ConvCase& c) {
  const ConvProblem p = real_problem(geometry(c));
  const TrioValues cpu = values_of(run_trio(p, {.dtype = kFloat64}));
  for (const DType dtype : {kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const TrioTensors cuda = run_trio(p, {.dtype = dtype, .device = kCUDA});
    // Sums of at most 5000 products below 1, whose rounding errors add up like a random walk's steps. In float64 the
    // CPU's own errors count too: against 80-bit sums they reach 3e-13.
    const double tolerance = dtype == kFloat32 ? 2e-5 : 5000 * 0x1p-53;
    expect_near("conv", cuda.conv, cpu.conv, tolerance);
    expect_near("conv_transpose", cuda.conv_transpose, cpu.conv_transpose, tolerance);
    expect_near("conv_weight", cuda.conv_weight, cpu.conv_weight, tolerance);
    expect_same_trio("again", run_trio(p, {.dtype = dtype, .device = kCUDA}), cuda);
  }
}

// A shard of the table a test: a process that opens the GPU costs more than a case.
constexpr std::size_t kShards = 6;

class ConvCuda : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
  void for_each_case(void (*check)(const ConvCase&)) {
    for (std::size_t i = GetParam(); i < conv_cases().size(); i += kShards) {
      SCOPED_TRACE(conv_cases()[i]);
      check(conv_cases()[i]);
    }
  }
};

TEST_P(ConvCuda, IntegersEqualTheCpus) { for_each_case(expect_cpus_integers); }
TEST_P(ConvCuda, RealsAgreeAndRepeatTheirBits) { for_each_case(expect_near_and_repeatable_on_reals); }

INSTANTIATE_TEST_SUITE_P(Shards, ConvCuda, ::testing::Range(std::size_t{0}, kShards));

// Its taps become channels if there is no bias.
TEST(ConvCudaOpeningLayer, EqualsTheCpus) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const ConvProblem p = integer_problem(geometry(
      ConvCase{.batch = 5, .in_channels = 24, .out_channels = 14, .groups = 2, .input = {1, 1}, .kernel = {4, 3}}));
  const auto on = [&](const TensorOptions& options) {
    return std::vector<Tensor>{conv_transpose(p.feature_tensor(options), p.filter_tensor(options), {}, p.geometry),
                               conv_transpose(p.feature_tensor(options), p.filter_tensor(options),
                                              p.image_bias_tensor(options), p.geometry),
                               conv(p.image_tensor(options), p.filter_tensor(options), {}, p.geometry),
                               conv(p.image_tensor(options), p.filter_tensor(options), p.feature_bias_tensor(options),
                                    p.geometry),
                               conv_weight(p.image_tensor(options), p.feature_tensor(options), p.geometry)};
  };
  const std::vector<Tensor> cpu = on({.dtype = kFloat64});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    SCOPED_TRACE(to_string(dtype));
    const std::vector<Tensor> cuda = on({.dtype = dtype, .device = kCUDA});
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      EXPECT_EQ(cuda[i].shape(), cpu[i].shape());
      expect_values(std::to_string(i), cuda[i], cpu[i].to_vector<double>());
    }
  }
}

// The gradient rules are the CPU's; a few geometries show that they run on the GPU.
TEST(ConvGradientCuda, FirstAndSecondOrder) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const TensorOptions options{.dtype = kFloat64, .device = kCUDA};
  constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};
  for (std::size_t i = 0; i < small_conv_cases().size(); i += 25) {
    const ConvCase& c = small_conv_cases()[i];
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const auto f = [&](const std::vector<Tensor>& in) { return call_conv_transpose(c, in[0], in[1], in[2]); };
    const std::vector<Tensor> inputs = {p.feature_tensor(options), p.filter_tensor(options),
                                        p.image_bias_tensor(options)};
    EXPECT_TRUE(gradcheck(f, inputs, kExact));
    EXPECT_TRUE(gradgradcheck(f, inputs, kExact));
  }
}

}  // namespace
}  // namespace adjoint::testing
