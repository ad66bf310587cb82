// The tensor-core kernels of conv_weight, each by its name: exact on integers in every arithmetic over the case table
// and over shapes that reach every tile, at odd addresses too; the same bits from run to run.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/precision.h>
#include <adjoint/ops/conv/cuda/dispatch.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/conv/weight_plan.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace adjoint::testing {
namespace {

struct Mode {
  const char* name;
  DType dtype;
  Precision precision;
  int unit_elements;
  bool split;
};
constexpr Mode kModes[] = {{"float32", kFloat32, Precision::kFull, 1, true},
                           {"tf32", kFloat32, Precision::kTF32, 1, false},
                           {"bfloat16", kBFloat16, Precision::kFull, 2, false},
                           {"float16", kFloat16, Precision::kFull, 2, false}};

/// Shapes that between them use every tile, several blocks of channels and taps, and several splits.
const std::vector<ConvCase>& tile_cases() {
  static const std::vector<ConvCase> cases = {
      {.name = "columns8", .in_channels = 5, .out_channels = 20, .input = {9, 70}, .kernel = {3, 3}, .padding = {1, 1}},
      {.name = "columns32",
       .in_channels = 30,
       .out_channels = 60,
       .input = {1, 65536},
       .kernel = {1, 5},
       .dilation = {1, 3}},
      {.name = "columns64",
       .batch = 32,
       .in_channels = 128,
       .out_channels = 64,
       .input = {32, 32},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "columns128",
       .batch = 128,
       .in_channels = 512,
       .out_channels = 256,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "stride2",
       .in_channels = 70,
       .out_channels = 64,
       .input = {12, 40},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.name = "stride3",
       .in_channels = 56,
       .out_channels = 1,
       .input = {20, 60},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.name = "long_sums", .in_channels = 16, .out_channels = 16, .input = {1, 300000}, .kernel = {1, 2}},
      {.name = "groups",
       .in_channels = 48,
       .out_channels = 36,
       .groups = 3,
       .input = {10, 33},
       .kernel = {3, 5},
       .stride = {2, 1},
       .padding = {1, 2},
       .dilation = {1, 2}},
  };
  return cases;
}

/// `tensor` on the GPU, `offset` elements into an allocation.
Tensor displaced(const Tensor& tensor, std::int64_t offset) {
  const Tensor padding = Tensor::zeros({offset}, {.dtype = tensor.dtype()});
  const Tensor flat = cat({padding, tensor.reshape({tensor.numel()})}).to(kCUDA);
  return flat.narrow(0, offset, tensor.numel()).reshape(tensor.shape());
}

bool takes(const cuda::ConvKernel& kernel, const Tensor& image, const Tensor& feature, const ConvGeometry& g) {
  return kernel.takes({.role = cuda::ConvRole::kFilter,
                       .geometry = g,
                       .dtype = image.dtype(),
                       .precision = float32_precision(),
                       .device = image.device().index,
                       .first = image.raw_data(),
                       .second = feature.raw_data(),
                       .bias = nullptr,
                       .out = nullptr});
}

/// Calls check(image, feature) in every arithmetic for each tensor-core kernel that takes the problem.
template <class Check>
void in_every_kernel(const ConvProblem& p, const Check& check) {
  for (const cuda::ConvKernel* kernel : cuda::conv_kernels(cuda::ConvRole::kFilter)) {
    if (kernel->name != std::string_view("wgmma_conv_weight") &&
        kernel->name != std::string_view("tensor_core_conv_weight")) {
      continue;
    }
    SCOPED_TRACE(kernel->name);
    const cuda::ForceConvKernel forced(kernel->name);
    for (const Mode& mode : kModes) {
      SCOPED_TRACE(mode.name);
      const PrecisionGuard precision(mode.precision);
      const TensorOptions options{.dtype = mode.dtype};
      const Tensor image = p.image_tensor(options), feature = p.feature_tensor(options);
      if (takes(*kernel, image.to(kCUDA), feature.to(kCUDA), p.geometry)) check(image, feature);
    }
  }
}

void expect_exact(const ConvCase& c, const std::vector<std::int64_t>& offsets) {
  SCOPED_TRACE(c);
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  const TensorOptions wide{.dtype = kFloat64};
  const auto expected = conv_weight(p.image_tensor(wide), p.feature_tensor(wide), g).to_vector<double>();
  in_every_kernel(p, [&](const Tensor& image, const Tensor& feature) {
    for (const std::int64_t offset : offsets) {
      SCOPED_TRACE(offset);
      expect_values("conv_weight", conv_weight(displaced(image, offset), displaced(feature, offset), g), expected);
    }
  });
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactOverTheTable) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : conv_cases()) expect_exact(c, {0});
}

TEST(TensorCoreConvWeightCuda, IntegersAreExactInEveryTileAtAnyAddress) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : tile_cases()) expect_exact(c, {0, 1, 2, 4, 7});
}

TEST(TensorCoreConvWeightCuda, RepeatsItsBits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : tile_cases()) {
    SCOPED_TRACE(c);
    const ConvProblem p = real_problem(geometry(c));
    in_every_kernel(p, [&](const Tensor& host_image, const Tensor& host_feature) {
      const Tensor image = host_image.to(kCUDA), feature = host_feature.to(kCUDA);
      const Tensor first = conv_weight(image, feature, p.geometry);
      for (int run = 0; run < 5; ++run) expect_same_bits("conv_weight", conv_weight(image, feature, p.geometry), first);
    });
  }
}

// Runs without a GPU: a tile that no case above reaches would be untested.
TEST(WeightTiles, AreAllReached) {
  for (const Mode& mode : kModes) {
    std::set<int> columns;
    for (const ConvCase& c : tile_cases()) {
      cuda::WeightPlan plan;
      ASSERT_TRUE(cuda::plan_weight(geometry(c), mode.unit_elements, mode.split, plan)) << c.name;
      columns.insert(plan.tile_columns);
    }
    const std::set<int> all = mode.split ? std::set<int>{8, 32, 64} : std::set<int>{8, 32, 64, 128};
    EXPECT_EQ(columns, all) << mode.name;
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
