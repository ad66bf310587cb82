// The index arithmetic, on the CPU, over every case: all assumptions of GPU kernels are checked here.

#include <adjoint/ops/conv/geometry.h>

#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace adjoint::testing {
namespace {

static_assert(gcd(12, 18) == 6 && gcd(5, 1) == 1);
static_assert(phase_taps(0, 4, 2, 1).taps == 2 && phase_taps(1, 4, 2, 1).first_tap == 1);
static_assert(phase_taps(1, 3, 4, 2).taps == 0, "gcd(4, 2) does not divide 1");
static_assert(image_position(3, 2, 2, 1, 3) == 11);

constexpr ConvGeometry opening_layer() {
  ConvGeometry g;
  g.batch = 3;
  g.feature_channels = 10;
  g.image_channels = 6;
  g.groups = 2;
  g.image = g.kernel = {4, 2};
  g.stride = {2, 1};
  return g;
}
static_assert(taps_as_channels(opening_layer()).image_channels == 48);
static_assert(taps_as_channels(opening_layer()).image_numel() == opening_layer().image_numel());
static_assert(taps_as_channels(opening_layer()).filter_numel() == opening_layer().filter_numel());
static_assert(taps_as_channels(opening_layer()).kernel == Extent2{1, 1});
constexpr bool keeps_its_taps(std::size_t axis, std::int64_t feature, std::int64_t padding, std::int64_t dilation) {
  ConvGeometry g = opening_layer();
  g.feature.in_plane(axis) = feature;
  g.padding.in_plane(axis) = padding;
  g.dilation.in_plane(axis) = dilation;
  return taps_as_channels(g) == g;
}
static_assert(keeps_its_taps(0, 2, 0, 1) && keeps_its_taps(1, 1, 1, 1) && keeps_its_taps(0, 1, 0, 2));

constexpr ConvGeometry pointwise_layer(std::int64_t output_padding) {
  ConvGeometry g;
  g.batch = 3;
  g.feature_channels = 10;
  g.image_channels = 6;
  g.feature = {4, 7};
  g.image = {4, 7 + output_padding};
  g.dilation = {1, 2};
  return g;
}
static_assert(planes_as_rows(pointwise_layer(0)).image == Extent2{1, 28});
static_assert(planes_as_rows(pointwise_layer(0)).feature == Extent2{1, 28});
static_assert(planes_as_rows(pointwise_layer(0)).image_numel() == pointwise_layer(0).image_numel());
static_assert(planes_as_rows(pointwise_layer(1)) == pointwise_layer(1), "whose rows end in zeros");
static_assert(planes_as_rows(opening_layer()) == opening_layer());

using Meetings = std::set<std::pair<std::int64_t, std::int64_t>>;

// (o, k) that touch image position i, o unbounded: by the definition, within the kernel.
Meetings by_definition(std::int64_t i, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation) {
  Meetings result;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t distance = i + padding - k * dilation;
    if (distance % stride == 0) result.insert({distance / stride, k});
  }
  return result;
}

Meetings by_phase(std::int64_t i, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                  std::int64_t dilation) {
  const std::int64_t q = (i + padding) / stride;
  const PhaseTaps phase = phase_taps((i + padding) % stride, kernel, stride, dilation);
  Meetings result;
  for (std::int64_t t = 0; t < phase.taps; ++t) {
    result.insert({q - phase.first_offset - t * phase.offset_step, phase.first_tap + t * phase.tap_step});
  }
  return result;
}

TEST(ConvGeometry, PhasesHoldExactlyTheTapsOfTheDefinition) {
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(c);
    const Extents image = output_extents(c);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      for (std::int64_t i = 0; i < image[axis]; ++i) {
        const Meetings expected = by_definition(i, c.kernel[axis], c.stride[axis], c.padding[axis], c.dilation[axis]);
        ASSERT_EQ(by_phase(i, c.kernel[axis], c.stride[axis], c.padding[axis], c.dilation[axis]), expected)
            << "position " << i;
        for (const auto& [o, k] : expected) {
          ASSERT_EQ(image_position(o, k, c.stride[axis], c.padding[axis], c.dilation[axis]), i);
        }
      }
    }
  }
}

constexpr ConvGeometry volume_of_taps(const Extents& kernel) {
  ConvGeometry g{.rank = 3, .batch = 2, .image_channels = 3, .feature_channels = 4};
  g.image = {5, 6, 7};
  g.kernel = kernel;
  g.padding = {kernel.d / 2, kernel.h / 2, kernel.w / 2};
  g.feature = g.image;
  return g;
}

// Taps along one axis, with the other two as one if they are neighbours in memory.
static_assert(volumes_as_planes(volume_of_taps({3, 1, 1})).image == Extent2{5, 42});
static_assert(volumes_as_planes(volume_of_taps({3, 1, 1})).kernel == Extent2{3, 1});
static_assert(volumes_as_planes(volume_of_taps({3, 1, 1})).padding == Extent2{1, 0});
static_assert(volumes_as_planes(volume_of_taps({1, 1, 3})).image == Extent2{30, 7});
static_assert(volumes_as_planes(volume_of_taps({1, 1, 3})).kernel == Extent2{1, 3});
static_assert(volumes_as_planes(volume_of_taps({1, 3, 1})) == volume_of_taps({1, 3, 1}));
static_assert(volumes_as_planes(volume_of_taps({1, 3, 3})) == volume_of_taps({1, 3, 3}));
static_assert(volumes_as_planes(volume_of_taps({3, 3, 1})) == volume_of_taps({3, 3, 1}));
static_assert(simplified(volume_of_taps({1, 1, 1}), true).image == Extent2{1, 210});
static_assert(!is_planar(volume_of_taps({1, 3, 3})));

// With all its padding in front, a depth stays one.
constexpr ConvGeometry causal_volume() {
  ConvGeometry g = volume_of_taps({3, 1, 1});
  g.padding.d = 2;
  return g;
}
static_assert(is_padded_alike(volume_of_taps({3, 1, 1})) && !is_padded_alike(causal_volume()));
static_assert(volumes_as_planes(causal_volume()) == causal_volume());

TEST(ConvCases, AreManyAndNamedApart) {
  std::set<std::string> names;
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(c);
    EXPECT_TRUE(names.insert(c.name).second);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      EXPECT_GE(output_extents(c)[axis], 1);
      EXPECT_TRUE(c.output_padding[axis] < c.stride[axis] || c.output_padding[axis] < c.dilation[axis]);
    }
  }
  EXPECT_GE(conv_cases().size(), 200U);
  EXPECT_GE(small_conv_cases().size(), 200U);
}

}  // namespace
}  // namespace adjoint::testing
