#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/dtype.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace adjoint {
namespace {

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = half;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(float16(value))));
    } else {
      ASSERT_EQ(float16(value).bits, half.bits) << bits;
    }
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // every gap between finite neighbours
    float16 below, above;
    below.bits = static_cast<std::uint16_t>(bits);
    above.bits = static_cast<std::uint16_t>(bits + 1);
    const float middle = (static_cast<float>(below) + static_cast<float>(above)) / 2.0F;
    ASSERT_EQ(float16(middle).bits, bits % 2 == 0 ? below.bits : above.bits) << bits;
    ASSERT_EQ(float16(std::nextafter(middle, 0.0F)).bits, below.bits) << bits;
    ASSERT_EQ(float16(std::nextafter(middle, 1e9F)).bits, above.bits) << bits;
  }
}

TEST(Float16, OverflowsAtTheHalfwayPoint) {
  EXPECT_EQ(static_cast<float>(float16(65504.0F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(float16(65519.996F)), 65504.0F);
  EXPECT_TRUE(std::isinf(static_cast<float>(float16(65520.0F))));
  EXPECT_EQ(static_cast<float>(float16(-1e30F)), -std::numeric_limits<float>::infinity());
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float below = std::bit_cast<float>(bits << 16), middle = std::bit_cast<float>(bits << 16 | 0x8000U);
    ASSERT_EQ(static_cast<float>(bfloat16(below)), below);
    ASSERT_EQ(bfloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(bfloat16(std::nextafter(middle, 0.0F)).bits, bits) << bits;
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(
      std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001U)))));  // payload in the dropped half
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(to_string(kBFloat16), "bfloat16");
  EXPECT_EQ(element_size(kFloat16), 2);
  EXPECT_EQ(element_size(kInt64), 8);
  EXPECT_TRUE(is_floating_point(kFloat64));
  EXPECT_FALSE(is_floating_point(kUInt8));
  EXPECT_EQ(visit(kInt32, []<class T>() { return sizeof(T); }), 4U);
}

TEST(Convert, BoolIsNotEqualToZero) {
  EXPECT_TRUE(convert<bool>(0.25));
  EXPECT_TRUE(convert<bool>(bfloat16(-0.5F)));
  EXPECT_FALSE(convert<bool>(0));
  EXPECT_EQ(convert<std::int32_t>(-2.9F), -2);
}

}  // namespace
}  // namespace adjoint
