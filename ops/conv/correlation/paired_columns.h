// Halves by pairs of neighbouring columns: conv of half precision, with an even stride along the row, as a problem of
// 32-bit units.
//
// Tensor cores sum over pairs of halves, 32 bits. Where the pair is of two channels, rows have to be interleaved; two
// neighbouring columns of a channel lie together in memory as they are, and the copy engine brings them. Unit u of a
// row is its columns 2 u and 2 u + 1: an output reads units at half the stride, and a tap of a unit is two neighbouring
// places, where the filter may have taps.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

/// The filter's taps along a row that a unit's tap t stands for: for its column r, of 0 and 1, tap
/// (t * scale + first + r * step) / dilation, where that is one of the filter's.
struct PairTaps {
  std::int32_t scale = 1, first = 0, step = 0, dilation = 1;
};

struct PairedColumns {
  ConvGeometry geometry;  // of units
  std::int32_t kernel_w;  // the filter's
  PairTaps taps;
};

/// False where rows of the image are no multiples of 16 bytes, where the stride along them is odd, and where taps are
/// so far apart that a zero between them would meet a value that is a stride or more from every tap.
ADJOINT_API bool pair_columns(const ConvGeometry& geometry, PairedColumns& pairs);

}  // namespace adjoint::cuda
