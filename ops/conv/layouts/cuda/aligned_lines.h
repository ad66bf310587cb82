// Copies of a matrix's lines for the copy engine, which wants them to begin at multiples of 16 bytes, or transposed.
#pragma once

#include <cstdint>

namespace adjoint::cuda {

/// `lines` of `width` elements that follow each other, to lines `pitch` apart. Or transposed, floats alone: of each of
/// `groups`, `source_group` apart, `width` lines of `columns` elements, `source_line` apart, to lines of `width`.
struct LineCopy {
  std::int64_t lines, width, pitch;
  std::int64_t columns, groups;
  std::int64_t source_line, source_group;  // 0 where nothing is transposed
};

/// On the device's current stream.
void copy_aligned(const LineCopy& copy, std::int64_t element_bytes, const void* from, void* to, int device);

}  // namespace adjoint::cuda
