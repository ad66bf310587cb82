// conv and conv_transpose of operands in channels_last through the C interface, on a GPU: exact on integers wherever a
// kernel reads them directly, with bias, activation and frozen filters; and the calls that need copies.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/c_api.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

struct Mode {
  DType dtype;
  int precision;
};
constexpr Mode kModes[] = {{kBFloat16, 0}, {kFloat16, 0}, {kFloat32, ADJOINT_PRECISION_TF32}};

/// Layers that copies around another kernel would not make faster.
const ConvCase kLarge[] = {
    {.name = "three",
     .batch = 4,
     .in_channels = 64,
     .out_channels = 72,
     .input = {64, 66},
     .kernel = {3, 3},
     .padding = {1, 1}},
    {.name = "one", .batch = 4, .in_channels = 128, .out_channels = 64, .input = {64, 64}, .kernel = {1, 1}},
    {.name = "up",
     .batch = 4,
     .in_channels = 64,
     .out_channels = 64,
     .input = {40, 64},
     .kernel = {4, 4},
     .stride = {2, 2},
     .padding = {1, 1}},
    // Channels that do not fill 16 bytes.
    {.name = "opening", .batch = 4, .in_channels = 3, .out_channels = 512, .input = {128, 128}, .kernel = {1, 1}},
    {.name = "head", .batch = 4, .in_channels = 512, .out_channels = 5, .input = {128, 128}, .kernel = {1, 1}},
    {.name = "picture", .batch = 4, .in_channels = 3, .out_channels = 64, .input = {96, 98}, .kernel = {3, 3}},
};

adjoint_conv_geometry to_c(const ConvGeometry& g) {
  return {.batch = g.batch,
          .image_channels = g.image_channels,
          .feature_channels = g.feature_channels,
          .groups = g.groups,
          .image = {g.image.h, g.image.w},
          .feature = {g.feature.h, g.feature.w},
          .kernel = {g.kernel.h, g.kernel.w},
          .stride = {g.stride.h, g.stride.w},
          .padding = {g.padding.h, g.padding.w},
          .dilation = {g.dilation.h, g.dilation.w}};
}

Tensor channels_last(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous(); }

/// A call of the C interface on the problem's operands; its result is NaN until it is written.
struct Call {
  adjoint_conv_geometry geometry;
  adjoint_context context;
  bool transposed;
  Tensor source, filter, last_filter, bias, result;

  Call(const ConvProblem& p, bool is_transposed, const Mode& mode)
      : geometry(to_c(p.geometry)), transposed(is_transposed) {
    context = {.device = 0, .stream = nullptr, .dtype = static_cast<int>(mode.dtype), .precision = mode.precision};
    const TensorOptions options{.dtype = mode.dtype, .device = kCUDA};
    source = channels_last(transposed ? p.feature_tensor(options) : p.image_tensor(options));
    filter = p.filter_tensor(options);
    last_filter = channels_last(filter);
    bias = transposed ? p.image_bias_tensor(options) : p.feature_bias_tensor(options);
    const ConvGeometry& g = p.geometry;
    result = channels_last(full(transposed ? image_shape(g) : feature_shape(g), std::nan(""), options));
  }

  int run(const adjoint_activation* activation = nullptr, adjoint_frozen_filter* frozen = nullptr, int offset = 0,
          bool filter_is_channels_last = false) {
    const auto function = transposed ? &adjoint_conv_transpose_channels_last : &adjoint_conv_channels_last;
    return function(&context, &geometry, frozen, activation, filter_is_channels_last,
                    static_cast<const char*>(source.raw_data()) + offset,
                    (filter_is_channels_last ? last_filter : filter).raw_data(), bias.raw_data(),
                    result.raw_mutable_data());
  }
};

Tensor expected(const ConvProblem& p, bool transposed, const Activation& activation = {}) {
  const TensorOptions wide{.dtype = kFloat64};
  const Tensor result = transposed ? conv_transpose(p.feature_tensor(wide), p.filter_tensor(wide),
                                                    p.image_bias_tensor(wide), p.geometry, activation)
                                   : conv(p.image_tensor(wide), p.filter_tensor(wide), p.feature_bias_tensor(wide),
                                          p.geometry, activation);
  return channels_last(result);
}

bool has_gpu() { return cuda_is_available() && cuda::runs_wgmma(0); }

TEST(ConvChannelsLastCuda, IsExactOnIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  const adjoint_activation relu{ADJOINT_RELU, 0.0};
  for (const ConvCase& c : kLarge) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool transposed : {false, true}) {
      const std::vector<double> plain = expected(p, transposed).to_vector<double>();
      const std::vector<double> activated = expected(p, transposed, Activation::relu()).to_vector<double>();
      for (const Mode& mode : kModes) {
        Call call(p, transposed, mode);
        // Strides of conv_transpose from positions of up to 16 bytes are left to copies.
        const std::int64_t channels = transposed ? c.in_channels : c.out_channels;
        const bool may_be_left = channels * element_size(mode.dtype) <= 16;
        const int status = call.run();
        if (may_be_left && status == 1) continue;
        ASSERT_EQ(status, 0) << adjoint_last_error();
        expect_values(transposed ? "conv_transpose" : "conv", call.result, plain);
        ASSERT_EQ(call.run(&relu), 0) << adjoint_last_error();
        expect_values("with relu", call.result, activated);
        ASSERT_EQ(call.run(nullptr, nullptr, 0, true), 0) << adjoint_last_error();
        expect_values("with a filter in channels_last", call.result, plain);
      }
    }
  }
}

// By every kernel: for rows that are read once, of 3, 5 and 7 taps, and for any filter.
TEST(ConvChannelsLastCuda, DepthwiseLayersAreExact) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  const adjoint_activation relu{ADJOINT_RELU, 0.0};
  for (const std::int64_t kernel : {2, 3, 5, 7}) {
    const ConvProblem p = integer_problem(geometry({.name = "depthwise",
                                                    .batch = 8,
                                                    .in_channels = 96,
                                                    .out_channels = 96,
                                                    .groups = 96,
                                                    .input = {60, 62},
                                                    .kernel = {kernel, kernel},
                                                    .padding = {kernel / 2, kernel / 2}}));
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(::testing::Message() << kernel << " taps, transposed " << transposed);
      const std::vector<double> activated = expected(p, transposed, Activation::relu()).to_vector<double>();
      for (const Mode& mode : {kModes[0], kModes[1], kModes[2], Mode{kFloat32, ADJOINT_PRECISION_FLOAT32}}) {
        Call call(p, transposed, mode);
        ASSERT_EQ(call.run(&relu), 0) << adjoint_last_error();
        expect_values("depthwise", call.result, activated);
      }
    }
  }
}

TEST(ConvChannelsLastCuda, WeightsAreExactOnIntegers) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  for (const ConvCase& c : kLarge) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const TensorOptions wide{.dtype = kFloat64};
    const Tensor exact = conv_weight(p.image_tensor(wide), p.feature_tensor(wide), p.geometry);
    const adjoint_conv_geometry g = to_c(p.geometry);
    for (const Mode& mode : kModes) {
      const DType dtype = mode.dtype;
      const TensorOptions options{.dtype = dtype, .device = kCUDA};
      const adjoint_context context{.device = 0,
                                    .stream = nullptr,
                                    .dtype = static_cast<int>(dtype),
                                    .precision = mode.precision};
      const Tensor image = channels_last(p.image_tensor(options)), feature = channels_last(p.feature_tensor(options));
      Tensor filter = full(exact.shape(), std::nan(""), options);
      ASSERT_EQ(adjoint_conv_weight_channels_last(&context, &g, 0, image.raw_data(), feature.raw_data(),
                                                  filter.raw_mutable_data()),
                0)
          << adjoint_last_error();
      expect_same_bits("conv_weight", filter.to(kCPU), exact.to(dtype));
      filter = channels_last(full(exact.shape(), std::nan(""), options));
      ASSERT_EQ(adjoint_conv_weight_channels_last(&context, &g, 1, image.raw_data(), feature.raw_data(),
                                                  filter.raw_mutable_data()),
                0)
          << adjoint_last_error();
      expect_same_bits("in channels_last", filter.to(kCPU), channels_last(exact.to(dtype)));
    }
  }
}

TEST(ConvChannelsLastCuda, KeepsAFrozenFiltersOrder) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  const std::unique_ptr<adjoint_frozen_filter, void (*)(adjoint_frozen_filter*)> frozen(adjoint_freeze_filter(),
                                                                                        &adjoint_unfreeze_filter);
  const ConvProblem p = integer_problem(geometry(kLarge[0]));
  Call call(p, false, kModes[0]);
  const std::vector<double> values = expected(p, false).to_vector<double>();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(call.run(nullptr, frozen.get()), 0) << adjoint_last_error();
    expect_values("frozen", call.result, values);
    call.filter.zero_();  // unseen
  }
  EXPECT_EQ(adjoint_frozen_bytes(frozen.get()), call.filter.numel() * 2);
}

// These leave the result as it was.
TEST(ConvChannelsLastCuda, LeavesTheRestToCopies) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU of sm_90";
  const ConvProblem p = integer_problem(geometry(kLarge[0]));
  const auto is_left = [](Call call, int offset = 0) {
    const bool left = call.run(nullptr, nullptr, offset) == 1;
    EXPECT_TRUE(isnan(call.result).to(kCPU).min().item<bool>());
    return left;
  };
  EXPECT_TRUE(is_left(Call(p, false, {kFloat32, ADJOINT_PRECISION_FLOAT32})));
  EXPECT_TRUE(is_left(Call(p, false, {kFloat64, ADJOINT_PRECISION_FLOAT32})));
  EXPECT_TRUE(is_left(Call(p, false, kModes[0]), 2)) << "an address between multiples of 16 bytes";
  ConvCase groups = kLarge[0];
  groups.groups = 8;
  EXPECT_TRUE(is_left(Call(integer_problem(geometry(groups)), false, kModes[0])));
}

}  // namespace
}  // namespace adjoint::testing
#endif
