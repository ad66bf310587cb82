// The layout of the shared memory that the tensor-core kernels of conv and conv_transpose have in common.
#pragma once

#include <adjoint/ops/conv/correlation/plan.h>

#include <cstdint>

namespace adjoint::cuda::correlation {

inline constexpr int kMaxStages = kMaxCorrelationStages, kMaxSlots = kMaxCorrelationSlots;

struct SharedLayout {
  std::uint32_t x_full, x_empty, w_full, w_empty, items, gather, zeros, w, x;  // shared-memory addresses
  int x_stages;
};

}  // namespace adjoint::cuda::correlation
