// The pipeline on a GPU: exact on integers by every plan in every arithmetic, also with several tiles per block; the
// same bits in every run.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/ops/conv/pipeline/cases.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::Arithmetic;

struct Mode {
  Arithmetic arithmetic;
  DType dtype;
};
constexpr Mode kModes[] = {{Arithmetic::kBFloat16, kBFloat16},
                           {Arithmetic::kFloat16, kFloat16},
                           {Arithmetic::kTF32, kFloat32}};

Tensor on_gpu(const std::vector<double>& values, DType dtype) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return Tensor::empty(shape, {.dtype = dtype, .device = kCUDA})
      .copy_(Tensor::from_vector(values, shape, {.dtype = kFloat64}));
}

/// Calls check(run, expected) for each of the problem's plans: run() is the result, channels last.
template <class Check>
void by_every_plan(const ConvProblem& p, bool transposed, const Mode& mode, const Check& check) {
  const cuda::PipelineGeometry g = cuda::pipeline_geometry(p.geometry, transposed);
  const auto positions = [](const cuda::PipelineAxes& e) { return e[1] * e[2] * e[3]; };
  const TensorOptions wide{.dtype = kFloat64};
  const Tensor result =
      transposed ? conv_transpose(p.feature_tensor(wide), p.filter_tensor(wide), p.image_bias_tensor(wide), p.geometry)
                 : conv(p.image_tensor(wide), p.filter_tensor(wide), p.feature_bias_tensor(wide), p.geometry);
  const auto expected = channels_last(result.to_vector<double>(), g.result_channels, positions(g.result));
  const Tensor source =
      on_gpu(channels_last(transposed ? p.feature : p.image, g.source_channels, positions(g.source)), mode.dtype);
  const Tensor filter = on_gpu(transposed ? first_last(p.filter, g.source_channels, p.geometry.taps())
                                          : channels_last(p.filter, g.source_channels, p.geometry.taps()),
                               mode.dtype);
  const Tensor bias = on_gpu(transposed ? p.image_bias : p.feature_bias, mode.dtype);
  double clocks = cuda::PlansAbove::kAnew;
  for (int plans = 0;; ++plans) {
    const cuda::PlansAbove above(clocks);
    cuda::PipelinePlan plan;
    const bool found = cuda::plan_pipeline(g, mode.arithmetic, {}, plan);
    ASSERT_TRUE(found || plans > 0);
    if (!found) break;
    clocks = cuda::pipeline_clocks(plan, {});
    SCOPED_TRACE(::testing::Message() << "columns " << plan.columns << ", one filter " << plan.shares_filter);
    check(
        [&] {
          Tensor out = on_gpu(std::vector<double>(expected.size(), std::nan("")), mode.dtype);
          cuda::run_pipeline(plan, mode.arithmetic,
                             {.source = source.raw_data(),
                              .filter = filter.raw_data(),
                              .bias = bias.raw_data(),
                              .result = out.raw_mutable_data()},
                             0);
          return out;
        },
        expected);
  }
}

/// Those that leave no block with one tile.
std::vector<ConvCase> cases() {
  std::vector<ConvCase> all(std::begin(kPipelineCases), std::end(kPipelineCases));
  const ConvCase many{.name = "many",
                      .batch = 5,
                      .in_channels = 64,
                      .out_channels = 128,
                      .input = {70, 90},
                      .kernel = {3, 3},
                      .padding = {1, 1}};
  all.push_back(many);
  all.push_back(many);
  all.back().kernel = {4, 4};
  all.back().stride = {2, 2};
  return all;
}

bool has_gpu() { return cuda_is_available() && cuda::runs_wgmma(0); }

TEST(PipelineCuda, IntegersAreExactByEveryPlan) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const Mode& mode : kModes) {
      for (const bool transposed : {false, true}) {
        by_every_plan(p, transposed, mode, [&](const auto& run, const std::vector<double>& expected) {
          expect_values(transposed ? "conv_transpose" : "conv", run(), expected);
        });
      }
    }
  }
}

TEST(PipelineCuda, RepeatsItsBits) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  for (const ConvCase& c : cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    for (const Mode& mode : kModes) {
      by_every_plan(p, false, mode, [&](const auto& run, const std::vector<double>&) {
        const Tensor first = run();
        for (int i = 0; i < 3; ++i) expect_same_bits("conv", run(), first);
      });
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
