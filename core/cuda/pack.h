// Neighbouring elements that are moved together.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cstdint>

namespace adjoint::cuda {

/// V elements, aligned to their size: one load or store if that is at most 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

/// Returns true if V neighbours from `data` on form a Pack.
template <class T, int V>
ADJOINT_HD inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * V) == 0;
}

}  // namespace adjoint::cuda
