// Shared by the tests of emulated kernels: the arithmetics, operands in them, and geometries.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/emulation/emulator.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::testing {

template <cuda::Arithmetic kArithmetic_>
struct Mode {
  static constexpr cuda::Arithmetic kArithmetic = kArithmetic_;
  using Element = typename cuda::ArithmeticTraits<kArithmetic>::Element;
  static constexpr DType kDType = kArithmetic == cuda::Arithmetic::kBFloat16  ? kBFloat16
                                  : kArithmetic == cuda::Arithmetic::kFloat16 ? kFloat16
                                                                              : kFloat32;
  static constexpr int kUnitElements = cuda::ArithmeticTraits<kArithmetic>::kHalf ? 2 : 1;
  static constexpr bool kSplit = cuda::ArithmeticTraits<kArithmetic>::kSplit;
};
using Modes = ::testing::Types<Mode<cuda::Arithmetic::kTF32>, Mode<cuda::Arithmetic::kFloat32>,
                               Mode<cuda::Arithmetic::kBFloat16>, Mode<cuda::Arithmetic::kFloat16>>;
/// Those of the kernels for products of matrices.
using HalfModes = ::testing::Types<Mode<cuda::Arithmetic::kBFloat16>, Mode<cuda::Arithmetic::kFloat16>>;
using ProductModes = ::testing::Types<Mode<cuda::Arithmetic::kBFloat16>, Mode<cuda::Arithmetic::kFloat16>,
                                      Mode<cuda::Arithmetic::kTF32>>;

/// Values in an element type, `offset` elements after a 16-byte boundary.
template <class T>
class Operand {
 public:
  Operand(const std::vector<double>& values, std::size_t offset)
      : elements_(values.size() + offset + 32, around()), size_(values.size()) {
    while (reinterpret_cast<std::uintptr_t>(elements_.data() + begin_) % 32 != 0) ++begin_;
    begin_ += offset;
    for (std::size_t i = 0; i < values.size(); ++i) data()[i] = cuda::from_float<T>(static_cast<float>(values[i]));
  }
  T* data() { return elements_.data() + begin_; }

  /// Returns true if the memory before and after the values is unchanged.
  bool surroundings_are_kept() const {
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      const bool around_values = i < begin_ || i >= begin_ + size_;
      if (around_values && cuda::to_float(elements_[i]) != cuda::to_float(around())) return false;
    }
    return true;
  }

 private:
  static T around() { return cuda::from_float<T>(0.375F); }

  std::vector<T> elements_;
  std::size_t begin_ = 0, size_;
};

/// The oracle's values as the type holds them.
template <class T>
double rounded(double value) {
  return cuda::to_float(cuda::from_float<T>(static_cast<float>(value)));
}

/// NaN equals NaN.
template <class T>
void expect_equal(const T* got, const std::vector<double>& expected) {
  int failures = 0;
  for (std::size_t i = 0; i < expected.size() && failures < 3; ++i) {
    const double value = cuda::to_float(got[i]), wanted = rounded<T>(expected[i]);
    if (value == wanted || (std::isnan(value) && std::isnan(wanted))) continue;
    ADD_FAILURE() << "element " << i << " of " << expected.size() << ": got " << value << ", expected " << wanted;
    ++failures;
  }
}

/// The oracle's results of conv or conv_transpose: the sums with their bias, and those after the activation.
struct Expected {
  std::vector<double> sums, results;
};

inline constexpr Activation kReLU{ActivationKind::kReLU};

/// `activation`: kReLU, or no activation.
inline Expected expected_results(const ConvProblem& p, bool transposed, const Activation& activation) {
  Expected expected;
  expected.sums = transposed ? oracle::conv_transpose(p.geometry, p.feature, p.filter, p.image_bias)
                             : oracle::conv(p.geometry, p.image, p.filter, p.feature_bias);
  expected.results = expected.sums;
  if (activation.kind == ActivationKind::kReLU) {
    for (double& value : expected.results) value = std::isnan(value) ? value : std::max(value, 0.0);
  }
  return expected;
}

template <class T>
constexpr DType kDTypeOf = sizeof(T) == 4              ? kFloat32
                           : std::is_same_v<T, __half> ? kFloat16
                                                       : kBFloat16;

/// Runs later launches in an order that the seed draws, by default on so few multiprocessors that blocks compute
/// several tiles.
inline void emulate_launches(std::uint64_t seed, int multiprocessors = 0) {
  cuda::emulated_seed = seed;
  cuda::emulated_multiprocessors = multiprocessors == 0 ? static_cast<int>(1 + seed % 3) : multiprocessors;
}

/// The value of unwritten elements.
inline std::vector<double> nothing(std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN());
}

/// A call of conv or conv_transpose on operands at addresses that follow from the seed, aligned ones among them, and
/// its expected results. With an activation, `linear` is kept.
template <class T>
class EmulatedCall {
 public:
  EmulatedCall(const ConvProblem& p, bool transposed, const Activation& activation, std::uint64_t seed)
      : expected_(expected_results(p, transposed, activation)),
        source_(transposed ? p.feature : p.image, seed % 3 == 0 ? 0 : seed % 9),
        filter_(p.filter, seed % 5),
        bias_(transposed ? p.image_bias : p.feature_bias, seed % 2),
        out_(nothing(std::ssize(expected_.results)), seed % 2 == 0 ? 0 : seed % 5),
        linear_(nothing(std::ssize(expected_.results)), seed % 4),
        keeps_(activation.kind != ActivationKind::kNone),
        problem_{.role = transposed ? cuda::ConvRole::kImage : cuda::ConvRole::kFeature,
                 .geometry = p.geometry,
                 .dtype = kDTypeOf<T>,
                 .precision = Precision::kFull,
                 .device = 0,
                 .first = source_.data(),
                 .second = filter_.data(),
                 .bias = (transposed ? p.image_bias : p.feature_bias).empty() ? nullptr : bias_.data(),
                 .out = out_.data(),
                 .activation = activation,
                 .linear = keeps_ ? linear_.data() : nullptr} {}
  EmulatedCall(const EmulatedCall&) = delete;
  EmulatedCall& operator=(const EmulatedCall&) = delete;

  const cuda::ConvProblem& problem() const { return problem_; }

  void expect_right() {
    expect_equal(out_.data(), expected_.results);
    EXPECT_TRUE(out_.surroundings_are_kept());
    if (keeps_) expect_equal(linear_.data(), expected_.sums);
  }

 private:
  Expected expected_;
  Operand<T> source_, filter_, bias_, out_, linear_;
  bool keeps_;
  cuda::ConvProblem problem_;
};

/// Of each kernel's random geometries; AddressSanitizer makes fibers ten times slower.
#ifdef ADJOINT_ASAN
inline constexpr std::uint64_t kRandomCases = 4;
#else
inline constexpr std::uint64_t kRandomCases = 40;
#endif

/// Geometries of a few thousand products, from a seed; each attribute has every small value.
inline ConvCase random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (;;) {
    ConvCase c{.name = "seed" + std::to_string(seed)};
    c.batch = upto(1, 5);
    c.groups = upto(0, 3) == 0 ? upto(2, 3) : 1;
    c.in_channels = c.groups * upto(1, upto(0, 2) == 0 ? 40 : 12);
    c.out_channels = c.groups * upto(1, upto(0, 2) == 0 ? 70 : 12);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.input.in_plane(axis) = axis == 0 && upto(0, 1) == 0 ? 1 : upto(1, axis == 0 ? 9 : 40);
      c.kernel.in_plane(axis) = axis == 0 && c.input.h == 1 ? 1 : upto(1, 5);
      c.stride.in_plane(axis) = upto(1, 4);
      c.dilation.in_plane(axis) = upto(1, 3);
      c.padding.in_plane(axis) = upto(0, 4);
      c.output_padding.in_plane(axis) = upto(0, std::max(c.stride.in_plane(axis), c.dilation.in_plane(axis)) - 1);
    }
    const Extents out = output_extents(c);
    if (out.h >= 1 && out.w >= 1 && multiply_adds(c) < 4'000'000) return c;
  }
}

}  // namespace adjoint::testing
