// The kernels of padding on the emulator, compared with the CPU's.
#include <cuda_runtime.h>
#include <adjoint/ops/pad/cuda.cu>

#include <adjoint/tests/support/emulation/placed.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

struct Amounts {
  std::int64_t in, before, after;
};

void check(std::int64_t planes, const std::array<Amounts, 3>& axes, PadMode mode, DType dtype, std::int64_t offset) {
  PadAttr attr;
  attr.map.mode = mode;
  attr.in = attr.out = {planes};
  std::vector<std::int64_t> padding;
  std::string what =
      to_string(dtype) + " mode " + std::to_string(static_cast<int>(mode)) + " at " + std::to_string(offset);
  for (std::size_t k = 0; k < 3; ++k) {
    const Amounts& a = axes[k];
    attr.map.axes[k] = {a.in, a.before + a.in + a.after, a.before};
    attr.in.push_back(a.in);
    attr.out.push_back(attr.map.axes[k].out);
    padding.insert(padding.begin(), {a.before, a.after});
    what += " (" + std::to_string(a.before) + ", " + std::to_string(a.in) + ", " + std::to_string(a.after) + ")";
  }
  SCOPED_TRACE(what);
  cuda::emulated_seed = static_cast<std::uint64_t>(offset);

  const Tensor x = placed(integers(attr.in.numel(), 50, 3), attr.in, dtype, offset);
  const Tensor expected = pad(x, padding, mode);
  // Elements around the result stay as they are.
  const std::int64_t count = attr.out.numel();
  Tensor memory = Tensor::full({count + 64}, 7.0, {.dtype = dtype});
  Tensor y = memory.narrow(0, 16 + offset, count).reshape(attr.out);
  cuda::pad(std::array{x}, y, attr);
  expect_same_bits("padded", y, expected);
  for (const auto& [from, length] : {std::pair{std::int64_t{0}, 16 + offset}, {16 + offset + count, 48 - offset}}) {
    expect_values("around", memory.narrow(0, from, length), std::vector<double>(static_cast<std::size_t>(length), 7.0));
  }
  if (!is_floating_point(dtype) || mode == PadMode::kConstant) return;

  const Tensor g = placed(integers(count, 3, 5), attr.out, dtype, offset);
  const Tensor sums = pad_adjoint(g, attr.in, padding, mode);
  memory.fill_(7.0);
  Tensor dx = memory.narrow(0, 16 + offset, attr.in.numel()).reshape(attr.in);
  cuda::pad_adjoint(std::array{g}, dx, attr);
  expect_same_bits("sums", dx, sums);
  expect_values("before", memory.narrow(0, 0, 16 + offset),
                std::vector<double>(static_cast<std::size_t>(16 + offset), 7.0));
}

TEST(PadEmulated, IsTheCpus) {
  for (const PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    for (const DType dtype : {kBFloat16, kFloat32, kFloat64, kUInt8}) {
      for (const std::int64_t offset : {0, 1, 3}) {
        check(2, {{{1, 0, 0}, {5, 1, 1}, {32, 1, 1}}}, mode, dtype, offset);
        check(1, {{{3, 1, 2}, {4, 0, 3}, {37, 2, 5}}}, mode, dtype, offset);
        check(3, {{{1, 0, 0}, {3, 2, 1}, {3, 2, 2}}}, mode, dtype, offset);     // rows shorter than a pack
        check(1, {{{2, 1, 1}, {2, 1, 0}, {40, 39, 20}}}, mode, dtype, offset);  // several places of most elements
        check(1, {{{1, 0, 0}, {1, 0, 0}, {700, 1, 0}}}, mode, dtype, offset);
        check(2, {{{3, 0, 0}, {4, 1, 1}, {24, 0, 0}}}, mode, dtype, offset);
      }
      if (mode == PadMode::kReplicate || mode == PadMode::kConstant) {
        check(2, {{{1, 3, 2}, {1, 2, 2}, {1, 7, 9}}}, mode, dtype, 1);
      }
      check(0, {{{1, 0, 0}, {5, 1, 1}, {32, 1, 1}}}, mode, dtype, 0);
    }
  }
}

// Results of which a thread has several packs, of rows as short as those may be, too.
TEST(PadEmulated, LargeOnesAreTheCpus) {
  check(3, {{{1, 0, 0}, {1000, 1, 2}, {700, 3, 2}}}, PadMode::kReflect, kFloat32, 0);
  check(1, {{{1, 0, 0}, {540000, 1, 0}, {3, 1, 0}}}, PadMode::kReplicate, kFloat32, 3);
  check(2, {{{1, 0, 0}, {1450, 0, 1}, {1447, 5, 0}}}, PadMode::kConstant, kBFloat16, 0);
}

TEST(PadEmulated, RepeatedAreThosePlacedSeveralTimes) {
  for (const PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    for (std::int64_t in = 1; in <= 6; ++in) {
      const std::int64_t most = mode == PadMode::kReflect ? in - 1 : in;
      for (std::int64_t before = 0; before <= most; ++before) {
        for (std::int64_t after = 0; after <= most; ++after) {
          const PadAxis axis{in, before + in + after, before};
          for (std::int64_t i = 0; i < in; ++i) {
            const pad_map::Places places = pad_map::places(axis, mode, i);
            EXPECT_EQ(pad_map::repeated(axis, mode).contains(i), places.count > 1);
            if (places.count == 1) {
              EXPECT_EQ(places[0], before + i);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
