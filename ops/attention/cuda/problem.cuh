// The arguments of fused attention's kernels, the place of a block, and its shared memory.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/philox.h>
#include <adjoint/ops/attention/cuda/form.h>
#include <adjoint/core/cuda/ptx.cuh>

#include <cstdint>

namespace adjoint::cuda::attention {

/// (N, heads, rows, kHead), copied by boxes of one line of some rows. batch_step and head_step are 0 if one batch or
/// head serves all.
struct Operand {
  TensorMap map;
  std::int32_t heads, batch_step, head_step;
};

/// Of (N, H, L, S), in elements; data is null without a mask.
struct Mask {
  const void* data;
  std::int64_t strides[4];
  bool added;  // the operands' dtype, added to the scores; otherwise bool
};

struct Dropout {
  std::uint64_t threshold = 0;  // a weight stays if its 53 random bits are below
  float factor = 1.0F;          // of the weights that stay
  bool active = false;
  philox::Position at = {};
};

/// Statistics are float32, of N * H heads with `padded_queries` rows each.
struct Problem {
  Operand kept_x, kept_y, moving_x, moving_y;
  std::int32_t heads, group;  // of queries, and those that share a head of keys
  std::int32_t queries, keys, padded_queries;
  std::int32_t tiles;    // of a head's kept rows
  std::int32_t pairs;    // batches times heads of kept rows
  std::int32_t section;  // pairs whose tiles take turns
  bool causal;
  float scale;
  float exponent;  // scores times this are powers of 2
  Mask mask;
  Dropout dropout;
  float* logs;                // log2 of the sum of a row's powers of 2; infinity for padding and rows that see no key
  float* maxima;              // with an added mask: subtracted from the row's scores before logs is
  const float* deltas;        // the sum of each row of dO times O
  void *result_x, *result_y;  // of the product with the moving X, or of the only product; with Y
  std::int32_t result_x_extent, result_y_extent;  // elements of a row; rows are contiguous
};

/// Kept rows of one head, which a block computes together.
struct Place {
  int pair, row;  // number of batch and head of the kept tensors, and the first row
};

/// Place number `index` of pairs * tiles. With a causal mask, places that see many columns come first in each section.
template <class F>
__device__ __forceinline__ Place place_of(const Problem& p, int index) {
  const int section = index / (p.section * p.tiles), first = section * p.section;
  const int within = index - first * p.tiles, pairs = min(p.section, p.pairs - first);
  const int tile = within / pairs, pair = first + within % pairs;
  const int turned = p.causal && !F::kByKey ? p.tiles - 1 - tile : tile;
  return {pair, turned * F::kRows};
}

/// The moving tiles of a block, in order: those of `heads` heads of queries, one after the other.
struct Walk {
  int first_tile, tiles, heads;
  __device__ __forceinline__ int steps() const { return tiles * heads; }
};

template <class F>
__device__ __forceinline__ Walk walk_of(const Problem& p, const Place& place) {
  const auto covering = [](int columns) { return (columns + F::kColumns - 1) / F::kColumns; };
  if (F::kByKey) {
    const int first = p.causal ? place.row / F::kColumns : 0;
    return {first, max(covering(p.queries) - first, 0), p.group};
  }
  return {0, covering(p.causal ? min(p.keys, place.row + F::kRows) : p.keys), 1};
}

/// Shared addresses. Barriers: a full and an empty one for the kept rows, then a full and an empty one for each moving
/// tile, X and Y of each stage in turn.
template <class F>
struct Shared {
  std::uint32_t base = ptx::shared_address(ptx::dynamic_smem());

  __device__ __forceinline__ std::uint32_t kept_full() const { return base; }
  __device__ __forceinline__ std::uint32_t kept_empty() const { return base + 8; }
  __device__ __forceinline__ std::uint32_t full(int slot) const { return base + 16 + 16 * slot; }
  __device__ __forceinline__ std::uint32_t empty(int slot) const { return base + 24 + 16 * slot; }
  __device__ __forceinline__ std::uint32_t kept(int which, int team) const {
    return base + kBarrierBytes + (which * F::kTeams + team) * F::kKeptTileBytes;
  }
  __device__ __forceinline__ std::uint32_t tile(int slot) const {
    return base + kBarrierBytes + F::kKeptBytes + slot * F::kTileBytes;
  }
  /// One of kStatistics rows of kColumns numbers.
  __device__ __forceinline__ std::uint32_t statistic(int stage, int which) const {
    return tile(2 * F::kStages) + (stage * kStatistics + which) * F::kColumns * 4;
  }
};

/// A stage of the ring and the parity of its barriers, for tile number `step`.
template <class F>
struct Stage {
  int index;
  std::uint32_t parity;
  __device__ __forceinline__ explicit Stage(int step)
      : index(step % F::kStages), parity(static_cast<std::uint32_t>(step / F::kStages) & 1U) {}
  __device__ __forceinline__ int x() const { return 2 * index; }
  __device__ __forceinline__ int y() const { return 2 * index + 1; }
};

}  // namespace adjoint::cuda::attention
