// The machine that plans are made for, an H200, and what the tensor-core kernels cost on it.
#pragma once

#include <adjoint/core/export.h>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

/// Of an H200, which every model counts with: a device's own number must not choose the kernel, and so the bits.
inline constexpr double kMultiprocessors = 132;

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

/// Clocks of a multiprocessor in which the correlation kernels multiply 64 positions and eight units of K by few
/// columns (results of a position, padded to sixteen): columns / 2, or what reading the positions takes; measured times
/// on such shapes are two and a half times that. `split`: float32 in three products.
inline double tensor_core_step_clocks(std::int64_t results, bool split) {
  const double columns = static_cast<double>((results + 15) / 16 * 16);
  return 2.5 * (split ? 2.5 : 1) * std::max(columns / 2, 16 + columns / 4);
}

/// While it lives, this thread's plans are those for a GPU of so many multiprocessors: for tests, whose small problems
/// would leave an H200's without work and never get the larger tiles.
class ADJOINT_API PlanForMultiprocessors {
 public:
  explicit PlanForMultiprocessors(int count);
  ~PlanForMultiprocessors();
  PlanForMultiprocessors(const PlanForMultiprocessors&) = delete;
  PlanForMultiprocessors& operator=(const PlanForMultiprocessors&) = delete;

 private:
  int before_;
};
/// How many those are.
ADJOINT_API int planned_multiprocessors();

}  // namespace adjoint::cuda
