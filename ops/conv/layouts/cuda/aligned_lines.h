// Copies of a matrix's lines for the copy engine, which requires them to begin at multiples of 16 bytes, or transposed
// copies.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// Consecutive `lines` of `width` elements, to lines `pitch` apart. Or transposed, for floats only: in each of
/// `groups`, `source_group` apart, `width` lines of `columns` elements, `source_line` apart, to lines of `width`.
struct LineCopy {
  std::int64_t lines, width, pitch;
  std::int64_t columns, groups;
  std::int64_t source_line, source_group;  // 0 unless transposed
};

/// On the device's current stream.
void copy_aligned(const LineCopy& copy, std::int64_t element_bytes, const void* from, void* to, int device);

}  // namespace adjoint::cuda
