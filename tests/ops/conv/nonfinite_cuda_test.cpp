// NaN and infinity in every CUDA kernel of the trio and every arithmetic: wherever the oracle has them, and otherwise
// only where a kernel's zeros may be next to the value, which are multiplied too:
//   from image or feature: results of the same sample and group, less than one stride from the value's footprint;
//   from the filter: results of the same channel;
//   in conv_weight: every tap between the value's channel and those of its group.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr std::size_t kShards = 4;
constexpr std::int64_t kMostProducts = 300'000;

/// One element of image or feature, (sample, channel, position), or of the filter, (feature channel, image channel of
/// its group, tap).
struct Place {
  std::int64_t outer, channel, h, w;
};
Place place_of(std::int64_t index, std::int64_t channels, const Extents& extents) {
  const std::int64_t plane = extents.h * extents.w;
  return {index / plane / channels, index / plane % channels, index / extents.w % extents.h, index % extents.w};
}
Place image_place(const ConvGeometry& g, std::int64_t index) { return place_of(index, g.image_channels, g.image); }
Place feature_place(const ConvGeometry& g, std::int64_t index) {
  return place_of(index, g.feature_channels, g.feature);
}
Place filter_place(const ConvGeometry& g, std::int64_t index) {
  return place_of(index, g.image_channels_per_group(), g.kernel);
}
std::int64_t image_group(const ConvGeometry& g, const Place& at) { return at.channel / g.image_channels_per_group(); }
std::int64_t feature_group(const ConvGeometry& g, const Place& at) {
  return at.channel / g.feature_channels_per_group();
}

bool within_a_stride(const ConvGeometry& g, const Place& image, const Place& feature) {
  const auto near = [&](std::size_t axis, std::int64_t i, std::int64_t o) {
    for (std::int64_t k = 0; k < g.kernel.in_plane(axis); ++k) {
      const std::int64_t touched =
          image_position(o, k, g.stride.in_plane(axis), g.padding.in_plane(axis), g.dilation.in_plane(axis));
      if (std::abs(i - touched) < g.stride.in_plane(axis)) return true;
    }
    return false;
  };
  return image.outer == feature.outer && image_group(g, image) == feature_group(g, feature) &&
         near(0, image.h, feature.h) && near(1, image.w, feature.w);
}

/// The image channel that a filter element belongs to.
std::int64_t image_channel(const ConvGeometry& g, const Place& filter) {
  return filter.outer / g.feature_channels_per_group() * g.image_channels_per_group() + filter.channel;
}

enum class Operand { kFirst, kSecond, kBias };

/// Returns true if element `from` of the operand may replace the value of element `to` of the result, against the
/// oracle.
bool may_reach(cuda::ConvRole role, const ConvGeometry& g, Operand operand, std::int64_t from, std::int64_t to) {
  if (operand == Operand::kBias) return false;
  const bool first = operand == Operand::kFirst;
  switch (role) {
    case cuda::ConvRole::kFeature:
      if (first) return within_a_stride(g, image_place(g, from), feature_place(g, to));
      return feature_place(g, to).channel == filter_place(g, from).outer;
    case cuda::ConvRole::kImage:
      if (first) return within_a_stride(g, image_place(g, to), feature_place(g, from));
      return image_place(g, to).channel == image_channel(g, filter_place(g, from));
    case cuda::ConvRole::kFilter: break;
  }
  if (first) return image_channel(g, filter_place(g, to)) == image_place(g, from).channel;
  return filter_place(g, to).outer == feature_place(g, from).channel;
}

std::vector<double>& values_of(ConvProblem& p, cuda::ConvRole role, Operand operand) {
  switch (operand) {
    case Operand::kFirst: return role == cuda::ConvRole::kImage ? p.feature : p.image;
    case Operand::kSecond: return role == cuda::ConvRole::kFilter ? p.feature : p.filter;
    case Operand::kBias: break;
  }
  return role == cuda::ConvRole::kImage ? p.image_bias : p.feature_bias;
}

std::vector<double> expected_values(const ConvProblem& p, cuda::ConvRole role) {
  switch (role) {
    case cuda::ConvRole::kFeature: return oracle::conv(p.geometry, p.image, p.filter, p.feature_bias);
    case cuda::ConvRole::kImage: return oracle::conv_transpose(p.geometry, p.feature, p.filter, p.image_bias);
    case cuda::ConvRole::kFilter: break;
  }
  return oracle::conv_weight(p.geometry, p.image, p.feature);
}

ConvOperands operands_of(ConvProblem& p, cuda::ConvRole role, DType dtype) {
  const auto tensor = [&](Operand operand) {
    const std::vector<double>& values = values_of(p, role, operand);
    return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())},
                                       {.dtype = dtype, .device = kCUDA});
  };
  return {tensor(Operand::kFirst), tensor(Operand::kSecond),
          role == cuda::ConvRole::kFilter ? Tensor{} : tensor(Operand::kBias)};
}

using Reach = std::function<bool(std::int64_t to)>;

void expect_footprint(const std::vector<double>& actual, const std::vector<double>& expected, const Reach& reach) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << "NaN lost at " << i << ": got " << actual[i];
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(actual[i], expected[i]) << "infinity lost at " << i;
    } else if (!std::isfinite(actual[i])) {
      ASSERT_TRUE(reach(static_cast<std::int64_t>(i))) << actual[i] << " too far away, at " << i;
    }
  }
}

void check(ConvProblem& p, cuda::ConvRole role, Operand operand, std::size_t place, std::set<std::string>& seen) {
  const ConvGeometry& g = p.geometry;
  const std::vector<double> expected = expected_values(p, role);
  const Reach reach = [&](std::int64_t to) {
    return may_reach(role, g, operand, static_cast<std::int64_t>(place), to);
  };
  for (const ConvMode& mode : kConvModes) {
    const ConvOperands operands = operands_of(p, role, mode.dtype);
    const cuda::ConvProblem problem = conv_problem(role, g, mode, operands);
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
      if (!kernel->takes(problem)) continue;
      SCOPED_TRACE(std::string(kernel->name) + ", " + mode.name);
      seen.insert(kernel->name);
      const Tensor guarded = run_guarded(*kernel, problem, 0);
      const Tensor result = guarded.narrow(0, kGuard, guarded.numel() - 2 * kGuard);
      expect_footprint(result.to_vector<double>(), expected, reach);
    }
  }
}

void check_case(const ConvCase& c, std::set<std::string>& seen) {
  SCOPED_TRACE(c);
  ConvProblem p = integer_problem(geometry(c));
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    for (const cuda::ConvRole role : kConvRoles) {
      for (const Operand operand : {Operand::kFirst, Operand::kSecond, Operand::kBias}) {
        if (role == cuda::ConvRole::kFilter && operand == Operand::kBias) continue;
        std::vector<double>& values = values_of(p, role, operand);
        if (values.empty()) continue;
        for (const std::size_t place : {values.size() / 2, values.size() - 1}) {
          SCOPED_TRACE(std::string(role_name(role)) + ", operand " + std::to_string(static_cast<int>(operand)) + "[" +
                       std::to_string(place) + "] = " + std::to_string(value));
          const double before = std::exchange(values[place], value);
          check(p, role, operand, place, seen);
          values[place] = before;
        }
      }
    }
  }
}

class ConvFootprintCuda : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ConvFootprintCuda, NonFiniteValuesStayNear) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  std::set<std::string> seen;
  for (std::size_t i = 8 * GetParam(); i < conv_cases().size(); i += 8 * kShards) check_case(conv_cases()[i], seen);
  // Rows that the copy engine can begin with, which random extents seldom are.
  check_case({.name = "aligned_rows",
              .in_channels = 5,
              .out_channels = 6,
              .input = {2, 64},
              .kernel = {2, 4},
              .stride = {1, 2},
              .padding = {0, 1}},
             seen);
  check_case({.name = "pointwise", .batch = 2, .in_channels = 9, .out_channels = 6, .input = {3, 8}}, seen);
  for (std::uint64_t seed = GetParam(), taken = 0; taken < 25; seed += kShards) {
    const ConvCase c = random_conv_case(seed);
    if (multiply_adds(c) > kMostProducts) continue;
    check_case(c, seen);
    ++taken;
  }
  if (compute_capability() != 90) return;
  for (const cuda::ConvRole role : kConvRoles) {
    for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role))
      EXPECT_TRUE(seen.contains(kernel->name)) << kernel->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ConvFootprintCuda, ::testing::Range(std::size_t{0}, kShards));

}  // namespace
}  // namespace adjoint::testing
#endif
