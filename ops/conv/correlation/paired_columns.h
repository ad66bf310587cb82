// Halves as pairs of neighbouring columns: conv of half precision, with an even stride along the row, as a problem of
// 32-bit units.
//
// Tensor cores sum over pairs of halves, 32 bits. If a pair consists of two channels, rows must be interleaved. Two
// neighbouring columns of a channel, however, are adjacent in memory, and the copy engine brings them directly. Unit u
// of a row is its columns 2 u and 2 u + 1: an output reads units at half the stride, and a tap of a unit is two
// neighbouring places at which the filter may have taps.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/geometry.h>

#include <cstdint>

namespace adjoint::cuda {

/// The filter's taps along a row that a unit's tap t represents: for its column r, of 0 and 1, tap (t * scale + first +
/// r * step) / dilation, if that is one of the filter's.
struct PairTaps {
  std::int32_t scale = 1, first = 0, step = 0, dilation = 1;
};

struct PairedColumns {
  ConvGeometry geometry;  // in units
  std::int32_t kernel_w;  // of the filter
  PairTaps taps;
};

/// Returns false if rows of the image are not multiples of 16 bytes, if the stride along them is odd, and if taps are
/// so far apart that a zero between them would meet a value that is a stride or more from every tap.
ADJOINT_API bool pair_columns(const ConvGeometry& geometry, PairedColumns& pairs);

}  // namespace adjoint::cuda
