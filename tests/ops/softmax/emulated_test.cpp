// The kernels of softmax on the emulator, and the choice among them: compared with the formula's values in float64.
#include <cuda_runtime.h>
#include <adjoint/ops/softmax/cuda.cu>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/emulation/placed.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check(const SoftmaxAttr& attr, DType dtype, std::uint64_t seed, std::int64_t offset = 0) {
  const DType result = attr.narrow ? kFloat32 : dtype;
  SCOPED_TRACE(to_string(dtype) + (attr.narrow ? " widened" : "") + (attr.log ? " log (" : " (") +
               std::to_string(attr.outer) + ", " + std::to_string(attr.extent) + ", " + std::to_string(attr.inner) +
               ") at " + std::to_string(offset));
  const auto tolerance = [](DType of) {
    return of == kFloat64 ? 1e-13 : of == kFloat32 ? 1e-6 : of == kFloat16 ? 1e-3 : 8e-3;
  };
  const Shape shape{attr.outer, attr.extent, attr.inner};
  std::vector<double> values = reals(shape.numel(), seed);
  for (double& value : values) value *= 4.0;
  if (!attr.log) values[0] = -kInfinity;
  const Tensor x = placed(values, shape, dtype, offset), wide = x.to(kFloat64);
  const Tensor e = exp(wide - wide.amax({1}, true)), sum = e.sum({1}, true);
  const Tensor expected = attr.log ? wide - wide.amax({1}, true) - log(sum) : e / sum;

  Tensor y = unwritten(shape, result, offset), dx = unwritten(shape, dtype, offset);
  cuda::emulated_seed = seed;
  cuda::softmax(std::array{x}, y, attr);
  expect_near("y", y, expected.to_vector<double>(), tolerance(result));

  const Tensor g = placed(reals(shape.numel(), seed + 1), shape, result, offset), wide_g = g.to(kFloat64);
  const Tensor kept = y.to(kFloat64), of_row = (attr.log ? wide_g : wide_g * kept).sum({1}, true);
  const Tensor gradient = attr.log ? wide_g - exp(kept) * of_row : kept * (wide_g - of_row);
  cuda::softmax_gradient(std::array{g, y}, dx, attr);
  expect_near("x's gradient", dx, gradient.to_vector<double>(), 4 * tolerance(dtype));
}

TEST(SoftmaxEmulated, Rows) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
    const std::int64_t pack = 16 / element_size(dtype);
    std::uint64_t seed = 0;
    for (const bool log : {false, true}) {
      // Few threads a row, a warp, a block; rows that a block cannot hold.
      for (const std::int64_t packs : {1, 3, 17, 60, 400, 2050})
        check({packs > 300 ? 2 : 37, packs * pack, 1, log}, dtype, ++seed);
      for (const std::int64_t extent : {2, 37, 301, 4099}) check({3, extent, 1, log}, dtype, ++seed);
      check({5, 8 * pack, 1, log}, dtype, ++seed, 1);
    }
  }
}

TEST(SoftmaxEmulated, BesideOneAnother) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
    const std::int64_t pack = 16 / element_size(dtype);
    std::uint64_t seed = 100;
    for (const bool log : {false, true}) {
      for (const std::int64_t extent : {3, 19, 70, 128}) {
        check({3, extent, 7, log}, dtype, ++seed);
        check({2, extent, 5 * pack, log}, dtype, ++seed);
      }
      check({2, 300, 5, log}, dtype, ++seed);  // more than lanes hold
    }
  }
}

TEST(SoftmaxEmulated, ManyBesideOneAnother) {
  check({1, 3, 131072, false}, kFloat32, 201);     // packs of columns, one lane
  check({1, 40, 16384, true}, kFloat32, 202);      // several
  check({1, 40, 4096, false}, kBFloat16, 203, 1);  // a column at a time
  check({1, 129, 32769, true}, kFloat16, 204);     // a thread has a row
}

TEST(SoftmaxEmulated, SixteenBitsToFloat32) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    std::uint64_t seed = 300;
    for (const bool log : {false, true}) {
      // Packs and single elements in a warp's rows, rows that no block holds, columns.
      check({37, 24, 1, log, dtype}, dtype, ++seed);
      check({37, 24, 1, log, dtype}, dtype, ++seed, 1);
      check({3, 37, 1, log, dtype}, dtype, ++seed);
      check({1, 8196, 1, log, dtype}, dtype, ++seed);
      check({3, 19, 7, log, dtype}, dtype, ++seed);
    }
  }
  check({1, 3, 131072, true, kBFloat16}, kBFloat16, 401);  // packs of columns
  check({1, 40, 16384, true, kBFloat16}, kBFloat16, 402);  // several lanes
}

}  // namespace
}  // namespace adjoint::testing
