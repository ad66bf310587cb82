// The machine that plans are made for: an H200, whatever runs them, and what tensor-core kernels cost on it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace adjoint::cuda {

/// Of an H200, which every model counts with: a device's own number must not choose the kernel, and so the bits.
inline constexpr int kMultiprocessors = 132;

/// What a planner is told of the machine that it plans for: a value, so that no plan depends on what else is true when
/// it is made. Tests plan for fewer multiprocessors, for their small problems would leave an H200's without work and
/// never get the larger tiles.
struct Machine {
  int multiprocessors = kMultiprocessors;
  std::int64_t smem_bytes = 227 * 1024;  // of a block
  // Bytes a clock: of the L2 to one multiprocessor by the copy engine, while all ask; from and to memory, of all
  // multiprocessors together.
  double l2_bytes = 33, moved_bytes = 1800;
};

/// Its members, for keys of what depends on them: one that comes later does not compile before it stands here.
inline std::array<std::int64_t, 4> numbers_of(const Machine& machine) {
  const auto& [multiprocessors, smem_bytes, l2_bytes, moved_bytes] = machine;
  return {multiprocessors, smem_bytes, std::bit_cast<std::int64_t>(l2_bytes), std::bit_cast<std::int64_t>(moved_bytes)};
}

/// Likewise of an H200: its clock, and what its memory brings.
inline constexpr double kClocksPerMicrosecond = 1755, kBytesPerMicrosecond = 3e6;

/// That one multiprocessor draws from the L2 by threads' copies when all do, as the models that use it were fitted; the
/// copy engine gets up to 33.
inline constexpr double kBytesPerClock = 18;

/// Of memory that a copy of an operand may take.
inline constexpr std::int64_t kMostCopyBytes = std::int64_t{2} << 30;

/// 32-bit units of channels that the correlation kernels sum at once; and where their steps gather, because a group has
/// few channels, the most taps, and the most units of one.
inline constexpr int kChunkUnits = 16, kMaxGatheredTaps = 256, kMaxGatheredUnits = 8;

}  // namespace adjoint::cuda
