// The rings of the tensor-core kernels of conv and conv_transpose, and where they lie in shared memory.
#pragma once

#include <adjoint/ops/conv/correlation_plan.h>

#include <cstdint>

namespace adjoint::cuda::correlation {

inline constexpr int kMaxStages = kMaxCorrelationStages, kMaxSlots = kMaxCorrelationSlots;

struct Ring {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots, std::uint32_t flip = 1) {
    if (++slot == slots) {
      slot = 0;
      parity ^= flip;
    }
  }
};

struct SharedLayout {
  std::uint32_t x_full, x_empty, w_full, w_empty, items, gather, zeros, w, x;  // shared-memory addresses
  int x_stages;
};

}  // namespace adjoint::cuda::correlation
