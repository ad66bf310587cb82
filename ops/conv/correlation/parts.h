// The parts of a correlation's plan (plan.h): the compiled tiles, steps and their taps, passes, classes, the packing of
// the filter, and the maximum number of each.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/machine.h>

#include <cstdint>

namespace adjoint::cuda {

inline constexpr int kMaxSteps = 512;
inline constexpr int kMaxPasses = 128;
inline constexpr int kMaxClasses = 16;
inline constexpr int kBoxPositions = 64;     // of a tile, for which a blocked plan's stages have a box
inline constexpr int kBoxedPositions = 128;  // at most, for a boxed plan's stages, unless steps gather
inline constexpr int kBoxedColumns = 192;    // at most, of a row's positions, without halos
inline constexpr int kPairedColumns = 64;    // the same if columns come in pairs
inline constexpr int kMostBoxedStride = 8;   // of positions along a row of the input
inline constexpr int kMostBoxedRowStep = 8;  // of rows, supported by the copy engine
inline constexpr int kMaxCorrelationStages = 8;
inline constexpr int kMaxCorrelationSlots = 64;
/// A full and an empty mbarrier for each of them.
inline constexpr int kCorrelationBarrierBytes = 16 * (kMaxCorrelationStages + kMaxCorrelationSlots);

/// The compiled tile shapes. One block per multiprocessor serves problems bound by matrix work; two with a consumer
/// each overlap one's stores with the other's products.
struct CorrelationTile {
  int columns;           // wgmma's N: 16, 32, 64, 128 or 256
  int m_tiles;           // rows of 64 positions per consumer warpgroup
  int consumers;         // warpgroups that multiply
  int blocks_per_sm;     // resident at once
  bool halves;           // steps may multiply half of its columns
  bool mma = true;       // the mma kernels are compiled for it too
  bool blocked = false;  // only for blocked plans
  constexpr int positions() const { return 64 * m_tiles * consumers; }
  constexpr bool gathers() const { return blocks_per_sm > 1; }        // steps may gather
  constexpr bool reads_blocks() const { return blocks_per_sm == 1; }  // a plan of it may be blocked
};
/// The third is for few positions, which the larger ones would leave to half of the multiprocessors. The fourth is for
/// few results, whose filter blocks are loaded less often the more positions there are.
inline constexpr CorrelationTile kCorrelationTiles[] = {{256, 1, 2, 1, true},        {128, 2, 2, 1, true},
                                                        {128, 1, 2, 1, true, false}, {64, 4, 2, 1, false, false, true},
                                                        {64, 4, 1, 2, false},        {32, 2, 2, 2, false},
                                                        {16, 2, 2, 2, false}};
/// With the sums doubled: three products, added step by step to ordinary registers.
inline constexpr CorrelationTile kSplitCorrelationTiles[] = {{128, 1, 2, 1, false},
                                                             {64, 2, 1, 2, false},
                                                             {32, 2, 1, 2, false},
                                                             {16, 2, 1, 2, false}};

/// The columns of a tile that a step multiplies; its filter block holds only these.
enum class CorrelationRange : std::int16_t { kAll, kLower, kUpper };

struct CorrelationTap {
  std::int32_t x_offset;  // from a position's place in the stage: in 32-bit units or, if blocked, in positions
  std::int32_t h, w;      // conv: the tap; conv_transpose: the offset from q to the feature
};

struct CorrelationStep {
  CorrelationRange range;
  std::int16_t first_half;  // of its filter block, in halves from the first step's of its pass and chunk

  ADJOINT_HD std::int32_t halves() const { return range == CorrelationRange::kAll ? 2 : 1; }
};

struct CorrelationPass {
  // Steps of range kAll come first, then kLower, then kUpper. In a plan that pairs halves and has such steps, no step
  // has range kAll: pairs of a lower and an upper one begin at lower_step. Leftovers of one range begin at upper_step,
  // but only in blocked plans.
  std::int16_t first_step, lower_step, upper_step, end_step;
  std::int16_t halves, first_half;   // of one chunk's filter blocks, and of those of the class's passes before
  std::int32_t h_base, w_base;       // the stage's first row and column, relative to the tile's first position
  std::int32_t h_residue;            // conv: the image row is (q + h) * stride + h_residue
  std::int32_t first_plane, planes;  // conv: residues of the image column; empty if boxed
  std::int16_t first_tap, taps;      // if steps gather
};

struct CorrelationClass {
  std::int32_t first_pass, passes;
  std::int32_t steps, slots;        // of one chunk; a slot holds a step's filter block, or a pair's
  std::int32_t halves, first_half;  // of one chunk's filter blocks, and of those of the classes before
};

/// The packing of the filter: a block of threads keeps a chunk of the summed channels and some of the result's in
/// shared memory, by contiguous runs, which belong to a summed channel in conv_transpose and to a result in conv. All
/// taps of a pair of channels follow each other.
struct CorrelationPacking {
  std::int32_t channels;          // of the result, a power of two
  std::int32_t runs, run;         // their number, and the elements of one
  std::int32_t pitch, run_pitch;  // elements between pairs, and between runs
  std::int32_t items, round;      // CorrelationPackItem: of a block in total, and in a round
  Divider taps, neighbours;       // of a pair; items of a round whose columns follow each other
};

}  // namespace adjoint::cuda
