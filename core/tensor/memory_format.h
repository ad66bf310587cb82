// The order of a tensor's elements in memory, which strides alone determine: shapes are (N, C, ...) in every format.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/shape.h>

#include <cstdint>
#include <iosfwd>

namespace adjoint {

enum class MemoryFormat : std::uint8_t {
  kContiguous,    // row-major: the last axis is innermost
  kChannelsLast,  // axis 1 is innermost: (N, L, C), (N, H, W, C) or (N, D, H, W, C) in memory
};
inline constexpr MemoryFormat kContiguous = MemoryFormat::kContiguous;
inline constexpr MemoryFormat kChannelsLast = MemoryFormat::kChannelsLast;

/// "contiguous" or "channels_last".
ADJOINT_API const char* to_string(MemoryFormat format);
ADJOINT_API std::ostream& operator<<(std::ostream& out, MemoryFormat format);

/// Returns true if tensors of `rank` axes can be in the format: channels_last needs 3 to 5 axes.
constexpr bool has_format(std::size_t rank, MemoryFormat format) {
  return format == kContiguous || (rank >= 3 && rank <= 5);
}

/// The strides of a tensor without gaps, in elements. Throws Error, naming `op`, for a rank that the format does not
/// have.
ADJOINT_API Strides strides_of(const char* op, const Shape& shape, MemoryFormat format);

/// The order of the axes in memory, outermost first: {0, 2, 3, 1} for four axes in channels_last.
ADJOINT_API Dims memory_order(std::size_t rank, MemoryFormat format);

}  // namespace adjoint
