// The machine for which plans are made: an H200, on every GPU, and the costs of tensor-core kernels on it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace adjoint::cuda {

/// The H200's number, which every model uses: the device's own number must not affect the choice of kernel, and so the
/// bits.
inline constexpr int kMultiprocessors = 132;

/// A planner's model of the machine: a value, so that plans depend on no other state. Tests plan for fewer
/// multiprocessors, because their small problems would leave an H200's idle and never get the larger tiles.
struct Machine {
  int multiprocessors = kMultiprocessors;
  std::int64_t smem_bytes = 227 * 1024;  // per block
  // Bytes per clock: from the L2 to one multiprocessor by the copy engine, while all use it; from and to memory, of all
  // multiprocessors together.
  double l2_bytes = 33, moved_bytes = 1800;
};

/// Its members, for keys that depend on them; adding a member does not compile until it is added here.
inline std::array<std::int64_t, 4> numbers_of(const Machine& machine) {
  const auto& [multiprocessors, smem_bytes, l2_bytes, moved_bytes] = machine;
  return {multiprocessors, smem_bytes, std::bit_cast<std::int64_t>(l2_bytes), std::bit_cast<std::int64_t>(moved_bytes)};
}

/// The H200's clock and memory bandwidth.
inline constexpr double kClocksPerMicrosecond = 1755, kBytesPerMicrosecond = 3e6;

/// Bytes per clock that threads' copies bring from the L2 to one multiprocessor when all copy, as fitted for the models
/// that use it; the copy engine gets up to 33.
inline constexpr double kBytesPerClock = 18;

/// The most memory for a copy of an operand.
inline constexpr std::int64_t kMostCopyBytes = std::int64_t{2} << 30;

/// 32-bit units of channels that the correlation kernels sum at once; and, for steps that gather because a group has
/// few channels, the most taps, and the most units of one.
inline constexpr int kChunkUnits = 16, kMaxGatheredTaps = 256, kMaxGatheredUnits = 8;

}  // namespace adjoint::cuda
