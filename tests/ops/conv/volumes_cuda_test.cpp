// The trio of volumes on a GPU: exact on integers in every dtype and in both memory formats, by the pipeline and by the
// plain kernels.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/base/precision.h>
#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

struct Mode {
  DType dtype;
  Precision precision = Precision::kFull;
};
constexpr Mode kModes[] = {{kBFloat16}, {kFloat16}, {kFloat32, Precision::kTF32}, {kFloat32}, {kFloat64}};

const ConvCase kCases[] = {
    {.name = "three",
     .rank = 3,
     .batch = 2,
     .in_channels = 24,
     .out_channels = 40,
     .input = {5, 7, 9},
     .kernel = {3, 3, 3},
     .padding = {1, 1, 1}},
    {.name = "up",
     .rank = 3,
     .batch = 1,
     .in_channels = 64,
     .out_channels = 32,
     .input = {4, 5, 6},
     .kernel = {2, 2, 2},
     .stride = {2, 2, 2}},
    {.name = "four",
     .rank = 3,
     .batch = 2,
     .in_channels = 16,
     .out_channels = 8,
     .input = {3, 4, 4},
     .kernel = {4, 4, 4},
     .stride = {2, 2, 2},
     .padding = {1, 1, 1}},
    {.name = "along_depth",
     .rank = 3,
     .batch = 1,
     .in_channels = 16,
     .out_channels = 16,
     .input = {9, 4, 20},
     .kernel = {3, 1, 1},
     .stride = {2, 1, 1},
     .padding = {1, 0, 0},
     .dilation = {2, 1, 1}},
    // Channels that do not fill 16 bytes, and groups.
    {.name = "one",
     .rank = 3,
     .batch = 2,
     .in_channels = 1,
     .out_channels = 12,
     .input = {4, 6, 5},
     .kernel = {3, 3, 3}},
    {.name = "odd",
     .rank = 3,
     .batch = 2,
     .in_channels = 13,
     .out_channels = 3,
     .input = {4, 6, 5},
     .kernel = {1, 2, 3}},
    // Few channels, which are unfolded: always if a stride has more phases than the pipeline supports.
    {.name = "unfolded_one",
     .rank = 3,
     .batch = 2,
     .in_channels = 32,
     .out_channels = 1,
     .input = {20, 24, 24},
     .kernel = {4, 4, 4},
     .stride = {2, 2, 2},
     .padding = {1, 1, 1}},
    {.name = "unfolded_two",
     .rank = 3,
     .batch = 2,
     .in_channels = 13,
     .out_channels = 2,
     .input = {4, 5, 9},
     .kernel = {3, 4, 3},
     .stride = {3, 3, 3},
     .padding = {1, 2, 0},
     .output_padding = {1, 0, 2}},
    {.name = "unfolded_three",
     .rank = 3,
     .batch = 1,
     .in_channels = 40,
     .out_channels = 3,
     .input = {3, 7, 6},
     .kernel = {2, 3, 5},
     .stride = {4, 2, 3},
     .padding = {0, 1, 3},
     .dilation = {2, 3, 1}},
    {.name = "groups",
     .rank = 3,
     .batch = 1,
     .in_channels = 16,
     .out_channels = 16,
     .groups = 2,
     .input = {3, 5, 6},
     .kernel = {3, 3, 3},
     .padding = {1, 1, 1}},
};

std::vector<Tensor> trio_of(const ConvProblem& p, const TensorOptions& options, MemoryFormat format) {
  const Tensor image = p.image_tensor(options).to(format), feature = p.feature_tensor(options).to(format),
               filter = p.filter_tensor(options).to(format);
  return {conv(image, filter, p.feature_bias_tensor(options), p.geometry),
          conv_transpose(feature, filter, p.image_bias_tensor(options), p.geometry),
          conv_weight(image, feature, p.geometry, format)};
}

TEST(ConvVolumesCuda, AreExactOnIntegers) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  for (const ConvCase& c : kCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const std::vector<Tensor> expected = trio_of(p, {.dtype = kFloat64}, kContiguous);
    for (const Mode& mode : kModes) {
      const PrecisionGuard precision(mode.precision);
      for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
        SCOPED_TRACE(::testing::Message() << to_string(mode.dtype) << ", channels_last " << (format == kChannelsLast));
        const std::vector<Tensor> got = trio_of(p, {.dtype = mode.dtype, .device = kCUDA}, format);
        for (std::size_t i = 0; i < got.size(); ++i) {
          // An image and a filter of one channel lie both ways, and ask for nothing.
          EXPECT_TRUE(p.geometry.image_channels == 1 || got[i].is_contiguous(format)) << i;
          expect_values(std::to_string(i), got[i], expected[i].to_vector<double>());
        }
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
#endif
