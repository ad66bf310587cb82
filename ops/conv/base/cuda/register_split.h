// The division of a block's registers if some of its warpgroups load and the others multiply.
#pragma once

namespace adjoint::cuda {

/// Registers per multiplying thread, in a block alone on its multiprocessor: the multipliers take the registers that
/// the loaders release. Limits are multiples of eight.
constexpr int multiplier_registers(int threads, int loaders, int loader_registers) {
  const int at_start = 65536 / threads / 8 * 8;
  return (at_start * threads - loader_registers * loaders) / (threads - loaders) / 8 * 8;
}

}  // namespace adjoint::cuda
