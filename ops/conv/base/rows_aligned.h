// Checks if rows of a tensor may be read or written several elements at a time.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// Returns true if every row of `row_bytes` from `pointer` on begins at a multiple of `bytes`.
inline bool rows_aligned(const void* pointer, std::int64_t row_bytes, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0 && row_bytes % bytes == 0;
}

}  // namespace adjoint::cuda
