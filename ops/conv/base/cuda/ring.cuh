// A place in a ring of stages or slots in shared memory.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// A slot, and the parity of its mbarriers' phase: the producer waits for its empty barrier with the other parity.
struct Ring {
  int slot = 0;
  std::uint32_t parity = 0;

  /// `flip`: 0 if slots stay full once they are full.
  __device__ __forceinline__ void advance(int slots, std::uint32_t flip = 1) {
    if (++slot == slots) {
      slot = 0;
      parity ^= flip;
    }
  }
  /// Advances `times` times.
  __device__ __forceinline__ void skip(int times, int slots) {
    slot += times;
    parity ^= static_cast<std::uint32_t>(slot / slots) & 1;
    slot %= slots;
  }
};

}  // namespace adjoint::cuda
