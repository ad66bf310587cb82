// When the plain kernels are said to pay: beside times measured on an H100 (bench/results/candidates.tsv).
#include <adjoint/ops/conv/plain/plan.h>
#include <adjoint/tests/support/conv_cases.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::plain_clocks;
using cuda::plain_pays;

constexpr double kClocksOfMicrosecond = 1755;

struct Measured {
  ConvCase layer;  // as a transposed convolution
  bool transposed;
  double microseconds;
  bool pays;
};

std::vector<Measured> measured(std::int64_t batch) {
  const ConvCase scales{.name = "msd end",
                        .rank = 1,
                        .batch = batch,
                        .out_channels = 1024,
                        .input = {1, 64},
                        .kernel = {1, 3},
                        .padding = {0, 1}};
  const ConvCase patches{.name = "patchgan end",
                         .batch = batch,
                         .out_channels = 512,
                         .input = {30, 30},
                         .kernel = {4, 4},
                         .padding = {1, 1}};
  const ConvCase classes{.name = "segnet head",
                         .batch = batch,
                         .in_channels = 512,
                         .input = {8, 8},
                         .kernel = {4, 4},
                         .stride = {2, 2},
                         .padding = {1, 1}};
  const ConvCase colours{.name = "vae 1",
                         .batch = batch,
                         .in_channels = 32,
                         .out_channels = 3,
                         .input = {32, 32},
                         .kernel = {4, 4},
                         .stride = {2, 2},
                         .padding = {1, 1}};
  const bool one = batch == 1;
  return {{scales, true, one ? 6.7 : 13.3, true},
          {patches, true, one ? 14.4 : 117.4, one},
          {classes, false, one ? 7.6 : 12.7, true},
          {colours, false, one ? 11.5 : 24.3, one}};
}

TEST(PlainConvPlan, TheModelIsNearMeasuredTimes) {
  for (const std::int64_t batch : {1, 16}) {
    for (const Measured& m : measured(batch)) {
      const double microseconds = plain_clocks(geometry(m.layer), m.transposed) / kClocksOfMicrosecond;
      EXPECT_NEAR(microseconds / m.microseconds, 1, 0.15) << m.layer.name << ", batch " << batch;
      EXPECT_EQ(plain_pays(geometry(m.layer), m.transposed), m.pays) << m.layer.name << ", batch " << batch;
    }
  }
}

TEST(PlainConvPlan, LongSumsGroupsAndFewResultsAreLeftToOthers) {
  const ConvCase wide{.batch = 1, .in_channels = 4, .out_channels = 64, .input = {4, 4}, .kernel = {3, 3}};
  ConvCase c = wide;
  EXPECT_TRUE(plain_pays(geometry(c), true));
  EXPECT_FALSE(plain_pays(geometry(c), false));  // sums of 64 channels
  c.in_channels = 5;
  EXPECT_FALSE(plain_pays(geometry(c), true));
  c = wide;
  c.groups = 4;
  EXPECT_FALSE(plain_pays(geometry(c), true));
  c = wide;
  c.out_channels = 4;
  EXPECT_FALSE(plain_pays(geometry(c), true));
  c.out_channels = 5;
  EXPECT_TRUE(plain_pays(geometry(c), true));
}

// A block whose threads are mostly without a position takes as long as a full one.
TEST(PlainConvPlan, PositionsFillBlocks) {
  ConvCase c{.batch = 1, .out_channels = 8192};
  const double one = plain_clocks(geometry(c), true);
  c.batch = 128;
  EXPECT_EQ(plain_clocks(geometry(c), true), one);
  c.batch = 129;
  EXPECT_GT(plain_clocks(geometry(c), true), one);
}

}  // namespace
}  // namespace adjoint::testing
