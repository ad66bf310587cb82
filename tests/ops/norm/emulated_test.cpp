// The kernels of normalisation on the emulator, and the choice among them: values and gradients compared with the
// formula's in float64.
#include <cuda_runtime.h>
#include <adjoint/ops/norm/cuda/gradients.cu>
#include <adjoint/ops/norm/cuda/normalize.cu>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/emulation/placed.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

struct Case {
  NormAttr attr;
  bool weighted = true, residual = false;
  std::int64_t offset = 0;  // of every tensor's first element from a multiple of 16 bytes
};

std::string describe(const Case& c, DType dtype) {
  const NormAttr& a = c.attr;
  return to_string(dtype) + " (" + std::to_string(a.samples) + ", " + std::to_string(a.groups) + ", " +
         std::to_string(a.depth) + ", " + std::to_string(a.inner) + ")" + (a.across ? " across" : "") +
         (a.centred ? "" : " about 0") + (a.given ? " given" : "") + (a.activation.is_none() ? "" : " activated") +
         (c.weighted ? " weighted" : "") + (a.wide ? " wide" : "") + (c.residual ? " residual" : "") +
         (a.channels_last ? " channels_last" : "") + " at " + std::to_string(c.offset);
}

struct Results {
  Tensor y;
  std::vector<Tensor> gradients;  // x's, weight's, bias's, residual's
};

/// By definition, in operators on float64.
Results composed(const NormAttr& a, const std::array<Tensor, 4>& in, const Tensor& statistics, const Tensor& grad) {
  const Shape seen{a.samples, a.groups, a.depth, a.inner}, by_channel{1, a.groups, a.depth, 1}, each{1, a.groups, 1, 1};
  const Dims shared = a.across ? Dims{0, 2, 3} : Dims{2, 3};
  std::vector<Tensor> leaves;
  for (const Tensor& t : in) {
    if (t.defined()) leaves.push_back(t.to(kFloat64).detach().requires_grad_());
  }
  Tape tape;
  const Tensor x = leaves[0].reshape(seen);
  Tensor z, variance;
  if (a.given) {
    z = x - statistics.select(1, 0).reshape(each);
    variance = statistics.select(1, 2).reshape(each);
  } else {
    z = a.centred ? x - x.mean(shared, true) : x;
    variance = square(z).mean(shared, true);
  }
  z = z * rsqrt(variance + a.eps);
  std::size_t next = 1;
  if (in[1].defined()) z = z * leaves[next++].reshape(by_channel);
  if (in[2].defined()) z = z + leaves[next++].reshape(by_channel);
  if (in[3].defined()) z = z + leaves[next++].reshape(seen);
  const Tensor y = activate(z, a.activation);
  Results results{y.detach(), tape.gradient((y * grad.to(kFloat64).reshape(seen)).sum(), leaves)};
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (!in[i].defined())
      results.gradients.insert(results.gradients.begin() + static_cast<std::ptrdiff_t>(i), Tensor{});
  }
  return results;
}

void expect_close(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance) {
  const double largest = std::max(1.0, expected.abs().amax().item<double>());
  expect_near(what, got.to(kFloat64).reshape(expected.shape()) / largest, (expected / largest).to_vector<double>(),
              tolerance);
}

void check(const Case& c, DType dtype, std::uint64_t seed) {
  const NormAttr& a = c.attr;
  SCOPED_TRACE(describe(c, dtype));
  const double tolerance = dtype == kFloat64 ? 1e-11 : dtype == kFloat32 ? 2e-6 : dtype == kFloat16 ? 2e-3 : 1e-2;
  const Shape shape{a.samples, a.channels(), a.inner}, channels{a.channels()};
  const DType wide = dtype == kFloat64 ? kFloat64 : kFloat32;
  // Images are in memory's order: with channels last, (samples, inner, channels).
  const Shape placed_shape = a.channels_last ? Shape{a.samples, a.inner, a.channels()} : shape;
  const auto logical = [&](const Tensor& t) { return a.channels_last ? t.permute({0, 2, 1}).contiguous() : t; };
  const auto drawn = [&](const Shape& of, bool is_wide = false) {
    return placed(reals(of.numel(), ++seed), of, is_wide ? wide : dtype, c.offset);
  };
  const std::array<Tensor, 4> in{drawn(placed_shape), c.weighted ? drawn(channels, a.wide) : Tensor{},
                                 c.weighted ? drawn(channels, a.wide) : Tensor{},
                                 c.residual ? drawn(placed_shape) : Tensor{}};
  const Tensor grad = drawn(placed_shape);
  Tensor statistics;
  if (a.given) {
    statistics = Tensor::from_vector(reals(a.groups * 3, ++seed), {a.groups, 3}, {.dtype = wide});
    statistics = statistics.abs() * Tensor::from_vector({1.0, 0.0, 1.0}, {1, 3}, {.dtype = wide});
  }
  const std::array<Tensor, 4> seen{logical(in[0]), in[1], in[2], c.residual ? logical(in[3]) : Tensor{}};
  const Results expected = composed(a, seen, a.given ? statistics.to(kFloat64) : Tensor{}, logical(grad));

  std::array<Tensor, 2> out{unwritten(placed_shape, dtype, c.offset),
                            unwritten({a.given ? 0 : a.statistics(), kStatisticsFields}, wide, 0)};
  cuda::emulated_seed = seed;
  cuda::normalize(std::array{in[0], in[1], in[2], in[3], statistics}, out, a);
  expect_close("y", logical(out[0]), expected.y, tolerance);

  const Tensor kept = a.given ? statistics : out[1];
  // All gradients; x's alone; the parameters' alone.
  for (const auto& [of_x, of_parameters] : {std::pair{true, true}, {true, false}, {false, true}}) {
    std::array<Tensor, 4> found;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool wanted = in[i].defined() && (i == 0 || i == 3 ? of_x : of_parameters) &&
                          !(i == 3 && a.activation.is_none());  // that one is grad itself
      found[i] = wanted ? unwritten(in[i].shape(), in[i].dtype(), c.offset) : Tensor::zeros({0}, {.dtype = dtype});
    }
    cuda::normalize_gradients(std::array{grad, in[0], in[1], in[2], in[3], kept}, found, a);
    constexpr std::array kNames{"x's", "weight's", "bias's", "residual's"};
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].numel() == 0) continue;
      expect_close(kNames[i], i == 0 || i == 3 ? logical(found[i]) : found[i], expected.gradients[i], 4 * tolerance);
    }
  }
}

NormAttr rows(std::int64_t count, std::int64_t length, bool centred = true) {
  return {.samples = count, .depth = length, .centred = centred, .eps = 1e-5};
}
NormAttr groups(std::int64_t samples, std::int64_t of, std::int64_t depth, std::int64_t inner,
                Activation activation = {}) {
  return {.samples = samples, .groups = of, .depth = depth, .inner = inner, .eps = 1e-5, .activation = activation};
}
NormAttr batch(std::int64_t samples, std::int64_t channels, std::int64_t inner, Activation activation = {},
               bool given = false) {
  NormAttr attr = groups(samples, channels, 1, inner, activation);
  attr.across = true;
  attr.given = given;
  return attr;
}

NormAttr wide(NormAttr attr) {
  attr.wide = true;
  return attr;
}

NormAttr last(NormAttr attr) {
  attr.channels_last = true;
  return attr;
}

constexpr Activation kSiLU{ActivationKind::kSiLU};

TEST(NormEmulated, RowsOfLayers) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
    const std::int64_t pack = 16 / element_size(dtype);
    std::uint64_t seed = 0;
    for (const bool centred : {true, false}) {
      // A lane a row, lanes, a warp, a block; the gradients' 1, 2 and 4 packs a thread; a row that lanes cannot hold.
      for (const std::int64_t length : {pack, 5 * pack, 40 * pack, 256 * pack, 300 * pack, 700 * pack, 1025 * pack})
        check({rows(length > 100 * pack ? 3 : 70, length, centred)}, dtype, ++seed);
      check({rows(7, 37, centred)}, dtype, ++seed);  // no whole packs
      check({rows(7, 4 * pack, centred), true, false, 1}, dtype, ++seed);
      check({rows(7, 4 * pack, centred), false}, dtype, ++seed);
    }
    NormAttr activated = rows(5, 6 * pack);
    activated.activation = kSiLU;
    check({activated, true, true}, dtype, ++seed);
  }
}

TEST(NormEmulated, ManyRowsABlock) {
  check({rows(512 * 4 * 4 + 3, 68)}, kFloat32, 1);  // four side by side, five times
  check({rows(515, 516 * 4)}, kFloat32, 2);         // the whole block's, twice
}

TEST(NormEmulated, Groups) {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    std::uint64_t seed = 100;
    for (const Activation& activation : {Activation{}, kSiLU}) {
      for (const bool residual : {false, true}) {
        check({groups(2, 3, 4, 5, activation), true, residual}, dtype, ++seed);   // short runs
        check({groups(2, 3, 4, 64, activation), true, residual}, dtype, ++seed);  // long ones
        check({groups(2, 2, 3, 100, activation), true, residual, 1}, dtype, ++seed);
        check({groups(2, 1, 1, 33, activation), false, residual}, dtype, ++seed);
      }
    }
    check({groups(1, 2, 5000, 8)}, dtype, ++seed);          // chunks of short runs
    check({groups(1, 2, 3, 12000, kSiLU)}, dtype, ++seed);  // chunks of long ones
  }
}

// A row is all of its channel, as when weights are normalised: one kernel computes all gradients.
TEST(NormEmulated, RowsThatAreChannels) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64}) {
    std::uint64_t seed = 150;
    for (const bool centred : {true, false}) {
      for (const std::int64_t length : {1, 7, 33, 512, 2816}) {
        NormAttr attr = groups(1, 13, 1, length, length == 33 ? kSiLU : Activation{});
        attr.centred = centred;
        check({attr, true, length == 33}, dtype, ++seed);
      }
    }
  }
}

TEST(NormEmulated, Batches) {
  for (const DType dtype : {kFloat32, kFloat16}) {
    std::uint64_t seed = 200;
    for (const Activation& activation : {Activation{}, kSiLU}) {
      for (const bool given : {false, true}) {
        check({batch(6, 5, 1, activation, given)}, dtype, ++seed);
        check({batch(6, 5, 7, activation, given), true, true}, dtype, ++seed);
        check({batch(3, 4, 96, activation, given), true, false}, dtype, ++seed);
        check({batch(3, 4, 97, activation, given), true, true, 1}, dtype, ++seed);
        check({batch(2, 2, 9000, activation, given), false}, dtype, ++seed);
      }
    }
  }
}

TEST(NormEmulated, ChannelsLast) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
    std::uint64_t seed = 400;
    for (const Activation& activation : {Activation{}, kSiLU}) {
      for (const bool given : {false, true}) {
        check({last(batch(3, 16, 50, activation, given)), true, true}, dtype, ++seed);      // whole packs of channels
        check({last(batch(3, 5, 50, activation, given)), true, true}, dtype, ++seed);       // none
        check({last(batch(2, 24, 1, activation, given)), false, false, 1}, dtype, ++seed);  // unaligned
      }
      check({last(groups(3, 4, 6, 35, activation)), true, true}, dtype, ++seed);
      check({last(groups(2, 3, 1, 40, activation))}, dtype, ++seed);
      check({last(groups(2, 1, 8, 33, activation)), false, true}, dtype, ++seed);
    }
    const std::int64_t pack = 16 / element_size(dtype);
    check({last(batch(2, 70 * pack, 9))}, dtype, ++seed);    // two blocks side by side
    check({last(batch(2, 8 * pack, 3000))}, dtype, ++seed);  // many along the positions
    check({last(groups(2, 4, 2 * pack, 1500, kSiLU))}, dtype, ++seed);
  }
}

// Norms of batches and of each sample, in rows that fit a block, that are cut, and that are all of their channel.
TEST(NormEmulated, WideParameters) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    std::uint64_t seed = 300;
    for (const Activation& activation : {Activation{}, kSiLU}) {
      for (const std::int64_t inner : {1, 7, 97, 9000}) {
        for (const bool given : {false, true}) {
          check({wide(batch(3, 4, inner, activation, given)), true, true}, dtype, ++seed);
          check({last(wide(batch(3, 8, inner, activation, given))), true, true}, dtype, ++seed);
        }
        if (inner == 1) continue;
        check({wide(groups(3, 4, 1, inner, activation))}, dtype, ++seed);
        check({wide(groups(1, 4, 1, inner, activation)), true, true, 1}, dtype, ++seed);
      }
    }
  }
}

// A weight, or a running mean, that is infinite: y is, with the sign that normal numbers beside it would give.
TEST(NormEmulated, Infinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::int64_t inner = 64;
  for (const DType dtype : {kFloat32, kBFloat16}) {
    for (const bool given : {false, true}) {
      SCOPED_TRACE(to_string(dtype) + (given ? " given" : ""));
      const NormAttr attr = batch(2, 1, inner, {}, given);
      const Tensor x = Tensor::from_vector(reals(2 * inner, 7), {2, 1, inner}, {.dtype = dtype}) + 0.1;
      const Tensor statistics = Tensor::from_vector({given ? kInfinity : 0.0, 0.0, 1.0}, {1, 3}, {.dtype = kFloat32});
      const Tensor weight = Tensor::from_vector({given ? 2.0 : kInfinity}, {1}, {.dtype = dtype});
      std::array<Tensor, 2> out{unwritten(x.shape(), dtype, 0), unwritten({given ? 0 : 1, 3}, kFloat32, 0)};
      cuda::normalize(std::array{x, weight, Tensor{}, Tensor{}, statistics}, out, attr);
      const std::vector<double> y = out[0].to(kFloat64).to_vector<double>();
      const std::vector<double> from = x.to(kFloat64).to_vector<double>();
      const double mean = given ? kInfinity : x.to(kFloat64).mean().item<double>();
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], from[i] < mean ? -kInfinity : kInfinity) << i;
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
