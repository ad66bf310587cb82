// The C interface: its results, and that every input has a status and a message.

#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/device.h>
#include <adjoint/ops/conv/c_api.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

constexpr adjoint_context kHere{.device = -1, .stream = nullptr, .dtype = ADJOINT_FLOAT32, .precision = 0};

// (1, 1, 1, 4) by a filter of 1 x 2.
constexpr adjoint_conv_geometry kSmall{.batch = 1,
                                       .image_channels = 1,
                                       .feature_channels = 1,
                                       .groups = 1,
                                       .image = {1, 4},
                                       .feature = {1, 3},
                                       .kernel = {1, 2},
                                       .stride = {1, 1},
                                       .padding = {0, 0},
                                       .dilation = {1, 1}};

bool refused(int status, const std::string& beginning) {
  return status == -1 && std::string(adjoint_last_error()).starts_with(beginning);
}

#define EXPECT_REFUSED(call, beginning) EXPECT_TRUE(refused(call, beginning)) << adjoint_last_error()

TEST(ConvCApi, ComputesTheTrio) {
  const std::vector<float> image{1, 2, 3, 4}, filter{10, 1}, bias{100};
  std::vector<float> feature(3), back(4), weight(2);
  ASSERT_EQ(adjoint_conv(&kHere, &kSmall, image.data(), filter.data(), bias.data(), feature.data()), 0);
  EXPECT_EQ(feature, (std::vector<float>{112, 123, 134}));
  ASSERT_EQ(adjoint_conv_transpose(&kHere, &kSmall, feature.data(), filter.data(), nullptr, back.data()), 0);
  EXPECT_EQ(back, (std::vector<float>{1120, 1342, 1463, 134}));
  ASSERT_EQ(adjoint_conv_weight(&kHere, &kSmall, image.data(), feature.data(), weight.data()), 0);
  EXPECT_EQ(weight, (std::vector<float>{760, 1129}));
}

// Writes to a frozen filter are not seen, because it is packed only in the first call of its shapes.
TEST(ConvCApi, FrozenFiltersArePackedOnce) {
  const CpuBackendGuard loops(CpuBackend::kVector);  // Eigen packs nothing
  const std::vector<float> image{1, 2, 3, 4}, expected{12, 23, 34};
  std::vector<float> filter{10, 1}, feature(3), back(4);
  adjoint_frozen_filter* const frozen = adjoint_freeze_filter();
  ASSERT_NE(frozen, nullptr);
  EXPECT_EQ(adjoint_frozen_bytes(frozen), 0);
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(adjoint_conv_frozen(&kHere, &kSmall, frozen, nullptr, image.data(), filter.data(), nullptr,
                                  feature.data()),
              0);
    EXPECT_EQ(feature, expected);
    ASSERT_EQ(adjoint_conv_transpose_frozen(&kHere, &kSmall, frozen, nullptr, expected.data(), filter.data(), nullptr,
                                            back.data()),
              0);
    EXPECT_EQ(back, (std::vector<float>{120, 242, 363, 34}));
    if (repeat == 0) filter = {-1, -1};
  }
  EXPECT_EQ(adjoint_frozen_bytes(frozen), 16) << "two floats for either operator";
  const adjoint_activation leaky{ADJOINT_LEAKY_RELU, -1.0};
  const std::vector<float> negative{-1, -2, -3, -4};
  ASSERT_EQ(adjoint_conv_frozen(&kHere, &kSmall, frozen, &leaky, negative.data(), filter.data(), nullptr,
                                feature.data()),
            0);
  EXPECT_EQ(feature, expected) << "activated";
  const adjoint_activation unknown{0, 0.0};
  EXPECT_REFUSED(adjoint_conv_frozen(&kHere, &kSmall, frozen, &unknown, image.data(), filter.data(), nullptr,
                                     feature.data()),
                 "adjoint_conv_frozen: activation's kind must be one of");
  adjoint_unfreeze_filter(frozen);
  ASSERT_EQ(adjoint_conv_frozen(&kHere, &kSmall, nullptr, nullptr, image.data(), filter.data(), nullptr,
                                feature.data()),
            0);
  EXPECT_EQ(feature, (std::vector<float>{-3, -5, -7}));
  adjoint_unfreeze_filter(nullptr);
  EXPECT_EQ(adjoint_frozen_bytes(nullptr), 0);
  EXPECT_REFUSED(adjoint_conv_frozen(nullptr, &kSmall, nullptr, nullptr, image.data(), filter.data(), nullptr,
                                     feature.data()),
                 "adjoint_conv_frozen: context and geometry must not be null");
  EXPECT_REFUSED(adjoint_conv_transpose_frozen(&kHere, &kSmall, nullptr, nullptr, feature.data(), nullptr, nullptr,
                                               back.data()),
                 "adjoint_conv_transpose_frozen: data must not be null");
}

TEST(ConvCApi, ActivatesTheResult) {
  const std::vector<float> image{1, -2, 3, -4}, filter{10, 1}, bias{1};
  std::vector<float> feature(3), back(4);
  const adjoint_activation relu{ADJOINT_RELU, 0.0}, leaky{ADJOINT_LEAKY_RELU, 0.5};
  // Before: 9, -16, 27.
  ASSERT_EQ(adjoint_conv_activated(&kHere, &kSmall, &relu, image.data(), filter.data(), bias.data(), feature.data()),
            0);
  EXPECT_EQ(feature, (std::vector<float>{9, 0, 27}));
  ASSERT_EQ(adjoint_conv_activated(&kHere, &kSmall, &leaky, image.data(), filter.data(), bias.data(), feature.data()),
            0);
  EXPECT_EQ(feature, (std::vector<float>{9, -8, 27}));
  ASSERT_EQ(adjoint_conv_transpose_activated(&kHere, &kSmall, &leaky, feature.data(), filter.data(), nullptr,
                                             back.data()),
            0);
  EXPECT_EQ(back, (std::vector<float>{90, -35.5F, 262, 27}));
  ASSERT_EQ(adjoint_conv_activated(&kHere, &kSmall, nullptr, image.data(), filter.data(), bias.data(), feature.data()),
            0);
  EXPECT_EQ(feature, (std::vector<float>{9, -16, 27}));
  for (const int kind : {-1, 0, 6, INT32_MAX}) {
    const adjoint_activation unknown{kind, 0.0};
    EXPECT_REFUSED(adjoint_conv_transpose_activated(&kHere, &kSmall, &unknown, feature.data(), filter.data(), nullptr,
                                                    back.data()),
                   "adjoint_conv_transpose_activated: activation's kind must be one of");
  }
}

// No kernel of the CPU reads operands in channels_last directly: the caller copies them.
TEST(ConvCApi, LeavesChannelsLastToCopiesOnTheCpu) {
  const std::vector<float> image{1, 2, 3, 4}, filter{10, 1};
  std::vector<float> feature(3, 7.0F), back(4, 7.0F);
  EXPECT_EQ(adjoint_conv_channels_last(&kHere, &kSmall, nullptr, nullptr, 0, image.data(), filter.data(), nullptr,
                                       feature.data()),
            1);
  EXPECT_EQ(adjoint_conv_transpose_channels_last(&kHere, &kSmall, nullptr, nullptr, 1, feature.data(), filter.data(),
                                                 nullptr, back.data()),
            1);
  EXPECT_EQ(adjoint_conv_weight_channels_last(&kHere, &kSmall, 0, image.data(), feature.data(), back.data()), 1);
  EXPECT_EQ(feature, std::vector<float>(3, 7.0F));
  EXPECT_EQ(back, std::vector<float>(4, 7.0F));
  EXPECT_REFUSED(adjoint_conv_channels_last(nullptr, &kSmall, nullptr, nullptr, 0, image.data(), filter.data(), nullptr,
                                            feature.data()),
                 "adjoint_conv_channels_last: context and geometry must not be null");
  EXPECT_REFUSED(adjoint_conv_transpose_channels_last(&kHere, &kSmall, nullptr, nullptr, 0, nullptr, filter.data(),
                                                      nullptr, back.data()),
                 "adjoint_conv_transpose_channels_last: data must not be null");
  EXPECT_REFUSED(adjoint_conv_weight_channels_last(&kHere, nullptr, 1, image.data(), feature.data(), back.data()),
                 "adjoint_conv_weight_channels_last: context and geometry must not be null");
}

TEST(ConvCApi, WrongContextsAndPointersAreRefusedByName) {
  std::vector<float> values(8, 1.0F), out(8, 7.0F);
  float* const x = values.data();
  EXPECT_REFUSED(adjoint_conv(nullptr, &kSmall, x, x, x, out.data()),
                 "adjoint_conv: context and geometry must not be null; got context null");
  EXPECT_REFUSED(adjoint_conv_transpose(&kHere, nullptr, x, x, x, out.data()),
                 "adjoint_conv_transpose: context and geometry must not be null; got geometry null");
  EXPECT_REFUSED(adjoint_conv_weight(nullptr, nullptr, x, x, out.data()),
                 "adjoint_conv_weight: context and geometry must not be null; got both null");
  EXPECT_REFUSED(adjoint_conv(&kHere, &kSmall, nullptr, x, x, out.data()), "adjoint_conv: data must not be null");
  EXPECT_REFUSED(adjoint_conv_transpose(&kHere, &kSmall, x, nullptr, x, out.data()),
                 "adjoint_conv_transpose: data must not be null");
  EXPECT_REFUSED(adjoint_conv_weight(&kHere, &kSmall, x, x, nullptr), "adjoint_conv_weight: data must not be null");
  void* const odd = reinterpret_cast<char*>(x) + 1;
  EXPECT_REFUSED(adjoint_conv(&kHere, &kSmall, odd, x, x, out.data()), "adjoint_conv: data must be aligned");
  for (const int dtype : {-1, 4, 7, INT32_MIN, INT32_MAX}) {
    adjoint_context context = kHere;
    context.dtype = dtype;
    EXPECT_REFUSED(adjoint_conv(&context, &kSmall, x, x, x, out.data()), "adjoint_conv: dtype must be one of");
  }
  for (const int precision : {-1, 2, INT32_MAX}) {
    adjoint_context context = kHere;
    context.precision = precision;
    EXPECT_REFUSED(adjoint_conv_weight(&context, &kSmall, x, x, out.data()),
                   "adjoint_conv_weight: precision must be one of");
  }
  for (const int device : {-2, INT32_MIN, 100, 128, 256, INT32_MAX}) {
    adjoint_context context = kHere;
    context.device = device;
    EXPECT_REFUSED(adjoint_conv_transpose(&context, &kSmall, x, x, x, out.data()), "adjoint_conv_transpose: ");
  }
  EXPECT_EQ(out, std::vector<float>(8, 7.0F));
}

TEST(ConvCApi, ChannelsAndStepsOutOfRangeAreRefused) {
  std::vector<float> x(64, 1.0F);
  const auto status = [&](auto change) {
    adjoint_conv_geometry geometry = kSmall;
    change(geometry);
    return adjoint_conv(&kHere, &geometry, x.data(), x.data(), nullptr, x.data());
  };
  const std::string rule = "adjoint_conv: a geometry's rank is 1, 2 or 3";
  EXPECT_REFUSED(status([](auto& g) { g.image_channels = 0; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.feature_channels = 0; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.groups = 0; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.batch = -1; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.stride[1] = 1LL << 59; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.padding[0] = 1LL << 59; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.dilation[1] = (1LL << 40) + 1; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.image[1] = 5; }), rule);
  EXPECT_REFUSED(status([](auto& g) { g.feature[1] = 4; }), rule);
  EXPECT_EQ(status([](auto& g) { g.batch = 0; }), 0);
}

// Channel c's pixel p of image n is 100 n + 10 c + p.
TEST(ConvCApi, CopiesToChannelsLastAndBack) {
  const std::int64_t extents[] = {2, 3, 1, 4};
  std::vector<float> first, last;
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < 4; ++p) first.push_back(static_cast<float>(100 * n + 10 * c + p));
    }
    for (int p = 0; p < 4; ++p) {
      for (int c = 0; c < 3; ++c) last.push_back(static_cast<float>(100 * n + 10 * c + p));
    }
  }
  std::vector<float> to_last(24), to_first(24);
  ASSERT_EQ(adjoint_copy_to_channels_last(&kHere, extents, first.data(), to_last.data()), 0);
  EXPECT_EQ(to_last, last);
  ASSERT_EQ(adjoint_copy_from_channels_last(&kHere, extents, last.data(), to_first.data()), 0);
  EXPECT_EQ(to_first, first);

  const std::int64_t none[] = {2, 0, 1, 4}, negative[] = {2, 3, -1, 4};
  EXPECT_EQ(adjoint_copy_to_channels_last(&kHere, none, first.data(), to_last.data()), 0);
  EXPECT_REFUSED(adjoint_copy_to_channels_last(&kHere, negative, first.data(), to_last.data()),
                 "adjoint_copy_to_channels_last: extents must not be negative; got -1 in place 2");
  EXPECT_REFUSED(adjoint_copy_from_channels_last(&kHere, nullptr, last.data(), to_first.data()),
                 "adjoint_copy_from_channels_last: context and extents must not be null; got extents null");
  EXPECT_REFUSED(adjoint_copy_from_channels_last(&kHere, extents, nullptr, to_first.data()),
                 "adjoint_copy_from_channels_last: data must not be null");
}

// Taps of 1 and 10 along the depth, two apart.
TEST(ConvCApi, ComputesVolumes) {
  adjoint_conv_geometry g{.batch = 1, .image_channels = 1, .feature_channels = 1, .groups = 1};
  g.image[0] = g.image[1] = g.feature[0] = g.feature[1] = g.kernel[0] = g.kernel[1] = 1;
  g.stride[0] = g.stride[1] = g.dilation[0] = g.dilation[1] = 1;
  g.image_depth = 4;
  g.feature_depth = g.kernel_depth = g.dilation_depth = 2;
  g.stride_depth = 1;
  const std::vector<float> image{1, 2, 3, 4}, filter{1, 10};
  std::vector<float> feature(2), back(4), weight(2);
  EXPECT_EQ(adjoint_conv(&kHere, &g, image.data(), filter.data(), nullptr, feature.data()), 0) << adjoint_last_error();
  EXPECT_EQ(feature, (std::vector<float>{31, 42}));
  EXPECT_EQ(adjoint_conv_transpose(&kHere, &g, feature.data(), filter.data(), nullptr, back.data()), 0)
      << adjoint_last_error();
  EXPECT_EQ(back, (std::vector<float>{31, 42, 310, 420}));
  EXPECT_EQ(adjoint_conv_weight(&kHere, &g, image.data(), feature.data(), weight.data()), 0) << adjoint_last_error();
  EXPECT_EQ(weight, (std::vector<float>{115, 261}));
  g.kernel_depth = 0;
  EXPECT_REFUSED(adjoint_conv(&kHere, &g, image.data(), filter.data(), nullptr, feature.data()),
                 "adjoint_conv: a geometry's rank is 1, 2 or 3");
}

TEST(ConvCApi, AnEmptyBatchHasNoResultAndAGradientOfZero) {
  adjoint_conv_geometry geometry = kSmall;
  geometry.batch = 0;
  std::vector<float> filter{10, 1}, weight{7, 7};
  EXPECT_EQ(adjoint_conv(&kHere, &geometry, nullptr, filter.data(), nullptr, nullptr), 0) << adjoint_last_error();
  EXPECT_EQ(adjoint_conv_weight(&kHere, &geometry, nullptr, nullptr, weight.data()), 0) << adjoint_last_error();
  EXPECT_EQ(weight, (std::vector<float>{0, 0}));
  // A sample of 2^61 elements, in an empty batch.
  geometry.image[0] = geometry.feature[0] = std::int64_t{1} << 58;
  weight = {7, 7};
  EXPECT_EQ(adjoint_conv_weight(&kHere, &geometry, nullptr, nullptr, weight.data()), 0) << adjoint_last_error();
  EXPECT_EQ(weight, (std::vector<float>{0, 0}));
}

// No data: reading or writing would be an error as well, and nothing else may happen.
TEST(ConvCApi, EveryGeometryHasAStatusAndAMessage) {
  std::mt19937_64 random(25);
  const std::vector<std::int64_t> extremes{0, -1, INT64_MIN, INT64_MAX, 1LL << 40, 1LL << 59, 1LL << 61, -(1LL << 62)};
  const auto value = [&](std::int64_t usual) {
    const std::uint64_t kind = random() % 16;
    return kind < 13   ? usual
           : kind < 15 ? extremes[random() % extremes.size()]
                       : static_cast<std::int64_t>(random() % 5);
  };
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    adjoint_conv_geometry g{};
    g.groups = value(1);
    g.batch = value(static_cast<std::int64_t>(random() % 3));
    g.image_channels = value(4);
    g.feature_channels = value(2);
    for (int axis = 0; axis < 2; ++axis) {
      g.image[axis] = value(6);
      g.feature[axis] = value(4);
      g.kernel[axis] = value(3);
      g.stride[axis] = value(1);
      g.padding[axis] = value(0);
      g.dilation[axis] = value(1);
    }
    const auto check = [&](int status, const std::string& name) {
      const std::string message = adjoint_last_error();
      EXPECT_EQ(status, -1);
      EXPECT_TRUE(message.starts_with(name + ": ")) << message;
      accepted += message.starts_with(name + ": data must not be null");
    };
    check(adjoint_conv(&kHere, &g, nullptr, nullptr, nullptr, nullptr), "adjoint_conv");
    check(adjoint_conv_transpose(&kHere, &g, nullptr, nullptr, nullptr, nullptr), "adjoint_conv_transpose");
    check(adjoint_conv_weight(&kHere, &g, nullptr, nullptr, nullptr), "adjoint_conv_weight");
  }
  EXPECT_GT(accepted, 300) << "geometries that are convolutions' should be among them";
  EXPECT_LT(accepted, 30000);
}

TEST(ConvCApi, EachThreadHasItsMessage) {
  EXPECT_REFUSED(adjoint_conv(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), "adjoint_conv: ");
  std::thread([] {
    EXPECT_STREQ(adjoint_last_error(), "");
    EXPECT_REFUSED(adjoint_conv_weight(nullptr, nullptr, nullptr, nullptr, nullptr), "adjoint_conv_weight: ");
  }).join();
  EXPECT_TRUE(std::string(adjoint_last_error()).starts_with("adjoint_conv: "));
}

}  // namespace
}  // namespace adjoint
