// The index arithmetic, on the CPU, over every case: whatever a GPU kernel assumes is checked here.

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

using Meetings = std::set<std::pair<std::int64_t, std::int64_t>>;

// (o, k) that touch image position i, o unbounded: what the definition says, within the kernel.
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
    const Extent2 image = output_extents(c);
    for (std::size_t axis : {0U, 1U}) {
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

TEST(ConvCases, AreManyAndNamedApart) {
  std::set<std::string> names;
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(c);
    EXPECT_TRUE(names.insert(c.name).second);
    EXPECT_GE(output_extents(c)[0], 1);
    EXPECT_GE(output_extents(c)[1], 1);
    EXPECT_TRUE(c.output_padding[0] < c.stride[0] || c.output_padding[0] < c.dilation[0]);
    EXPECT_TRUE(c.output_padding[1] < c.stride[1] || c.output_padding[1] < c.dilation[1]);
  }
  EXPECT_GE(conv_cases().size(), 200U);
  EXPECT_GE(small_conv_cases().size(), 200U);
}

}  // namespace
}  // namespace adjoint::testing
