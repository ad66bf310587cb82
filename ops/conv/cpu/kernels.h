// The arguments of the convolution's inner kernels, and the table of kernels that each instruction set fills. The plans
// are plain data: code for any x86-64 computes them, and objects that are compiled for one instruction set only read
// them. Internal to ops/conv/cpu.
#pragma once

#include <adjoint/ops/matmul/cpu/kernels.h>

#include <cstdint>

namespace adjoint::cpu {

/// A position in a volume, or a distance between two, or extents.
struct Place {
  std::int64_t d, h, w;
  std::int64_t volume() const { return d * h * w; }
};
struct PlanePlace {
  std::int64_t h, w;
};

/// conv and conv_transpose as matrix products on gathered tiles. For each sample and group, and each position q of a
/// grid,
///
///   out[channel][q * out_step + slot place] = bias[channel] + sum over taps and input channels of
///       filter[slot, channel][tap, input channel] * in[input channel][q * in_step + tap place],
///
/// where an input outside its volume counts as zero and an output outside is not stored. conv is one such plan: one
/// slot, the image read at stride. conv_transpose is one for each phase, the image written at stride; phases that read
/// the same inputs share one plan, a slot each, so that one channel in nine phases is a product with nine rows.
///
/// In the product, positions are batch * grid; inner rows are taps * in_channels, tap-major; rows are slots *
/// out_channels, channel-major: row = channel * slots + slot.
struct GatherPlan : ProductShape {
  std::int64_t batch;
  std::int64_t in_channels, out_channels;  // of one group
  Place in_extent, out_extent;
  Place in_step, out_step;
  Place grid_begin, grid_extent;  // of q
  std::int64_t taps, slots;
  const Place* tap_places;   // (taps)
  const Place* slot_places;  // (slots)
};

/// A plan's taps as shifts of one slab, for narrow products, in which gathering each tap's inputs would dominate. A
/// tile's inputs are copied once, with zeros around the volume, split by residue modulo in_step, so that neighbouring
/// grid positions are neighbours; a tap then reads a residue at a constant distance. Positions continue over the ends
/// of the slab's rows.
struct ShiftPlan {
  struct Tap {
    std::int64_t residue;  // (d * in_step.h + h) * in_step.w + w
    Place shift;           // from the slab's first plane, row and column
  };
  Place shift_begin, shift_extent;  // of all taps: smallest, and largest minus smallest
  std::int64_t residues;            // in_step.volume()
  const Tap* taps;                  // (taps)
  const bool* residue_used;         // (residues)
};

/// One task's share of a plan's product if taps are shifts: a part of one sample's grid, all rows of the product.
struct ShiftTile {
  std::int64_t group, n;
  Place begin, extent;  // from grid_begin
};

/// Part of a weight gradient of one image plane and one feature plane: feature positions [begin, begin + extent).
struct DotTile {
  PlanePlace image_extent, begin, extent;
  std::int64_t feature_width;
  PlanePlace kernel, stride, padding, dilation;
};

template <class T>
struct ConvKernels {
  /// Computes one tile of a plan. `filter` is the group's packed blocks, each (inner, rows of the block); `bias` is the
  /// group's, or null; `in` and `out` are whole tensors; `scratch` holds kTileScratch elements, 64-byte aligned.
  void (*gather_tile)(const GatherPlan& plan, const ProductTile& tile, const T* in, const T* filter, const T* bias,
                      T* out, T* scratch);
  /// Like gather_tile, by shifts; the packed blocks are channel-major: (in_channels, taps, rows of the block).
  /// `scratch` holds OwnedGatherPlan::scratch() elements.
  void (*shift_tile)(const GatherPlan& plan, const ShiftPlan& shifts, const ShiftTile& tile, const T* in,
                     const T* filter, const T* bias, T* out, T* scratch);
  /// Adds each tap's sum to result (kernel.h, kernel.w). `scratch` holds the image rows that the tile reads.
  void (*tap_dots)(const DotTile& tile, const T* image, const T* feature, T* result, T* scratch);
};

/// Taps whose products a plan by shifts adds up at a time, and elements past a slab's last position that whole panels
/// touch.
inline constexpr std::int64_t kShiftTaps = 512, kShiftPadding = 64;

namespace baseline {
extern const KernelTable<ConvKernels> conv_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable<ConvKernels> conv_table;
}
namespace avx512 {
extern const KernelTable<ConvKernels> conv_table;
}
#endif

}  // namespace adjoint::cpu
