// The operands of the kernel for few output channels (kernel.cuh): the layout of a block's shared memory, the walk
// through its chunks, the warp that brings the source, and the filter in the order that products read.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/line/col2im/plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/base/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/base/cuda/ring.cuh>
#include <adjoint/ops/conv/line/cuda/line.cuh>

#include <cstdint>

namespace adjoint::cuda::col2im {

struct Operands : line::Operands<float> {
  TensorMap map;  // of the source, if its rows begin at multiples of 16 bytes (`vectors`)
};

/// The layout of a block's shared memory.
struct Shared {
  std::uint32_t full, empty;  // shared addresses of mbarriers, one a stage
  std::uint32_t source;       // shared address
  uint4* filter;
  std::uint32_t* places;  // of results, for each row of taps of a channel
  float *sums, *results;
};

__device__ __forceinline__ Shared shared_of(const Col2imPlan& p) {
  unsigned char* const smem = ptx::dynamic_smem();
  Shared shared;
  shared.full = ptx::shared_address(smem);
  shared.empty = shared.full + 8 * kMaxCol2imStages;
  shared.source = shared.full + kCol2imBarrierBytes;
  shared.filter = reinterpret_cast<uint4*>(smem + kCol2imBarrierBytes + p.source_stages * p.stage_bytes());
  shared.places = reinterpret_cast<std::uint32_t*>(smem + 16 * kMaxCol2imStages);
  shared.sums = reinterpret_cast<float*>(shared.filter + p.filter_vectors());
  shared.results = shared.sums + p.sum_elements();
  return shared;
}

/// The chunks of a block's tiles (every gridDim'th tile), in order.
struct Chunks {
  const Col2imPlan* p;
  int index;
  Col2imTile tile;
  int row, chunk;

  __device__ __forceinline__ explicit Chunks(const Col2imPlan& plan) : p(&plan), index(static_cast<int>(blockIdx.x)) {
    enter_tile();
  }
  __device__ __forceinline__ bool left() const { return index < static_cast<int>(p->blocks()); }
  __device__ __forceinline__ int column() const { return tile.first_column + chunk * kCol2imChunk; }
  __device__ __forceinline__ void next() {
    if (++chunk < tile.chunks) return;
    chunk = 0;
    if (++row < tile.end_row) return;
    index += static_cast<int>(gridDim.x);
    enter_tile();
  }

 private:
  __device__ __forceinline__ void enter_tile() {
    chunk = 0;
#pragma unroll 1
    for (; left(); index += static_cast<int>(gridDim.x)) {
      tile = col2im_tile(*p, index);
      row = tile.first_row;
      if (tile.chunks > 0) return;
    }
  }
};

/// Brings the source of the block's tiles; one warp.
template <bool kSplit>
__device__ __forceinline__ void bring_source(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                             int lane) {
  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const int box_bytes = p.stage_bytes() / 2;
  Ring ring;
#pragma unroll 1
  for (Chunks chunks(p); chunks.left(); chunks.next()) {
#pragma unroll 1
    for (int i = 0; i < p.stages; ++i, ring.advance(p.source_stages)) {
      const int channel = i * p.depths * 8, column = chunks.column();
      const std::uint32_t full = shared.full + 8 * ring.slot;
      ptx::mbarrier_wait(shared.empty + 8 * ring.slot, ring.parity ^ 1);
      if (operands.vectors) {
        if (lane != 0) continue;
        const std::uint32_t to = shared.source + ring.slot * p.stage_bytes();
        ptx::mbarrier_arrive_expect_bytes(full, p.stage_bytes());
        for (int half = 0; half < 2; ++half) {
          const int at[kTensorMapAxes] = {column + half * kCol2imBox, chunks.row, chunks.tile.sample, channel, 0};
          ptx::tensor_copy(to + half * box_bytes, &operands.map, at, full);
        }
      } else {
        // If the tensor begins between multiples of 16 bytes: the same values at the same places.
        unsigned char* const to = ptx::dynamic_smem() + kCol2imBarrierBytes + ring.slot * p.stage_bytes();
        const float* from = operands.source +
                            (static_cast<std::int64_t>(chunks.tile.sample) * p.source_channels + channel) * plane +
                            static_cast<std::int64_t>(chunks.row) * p.w.source;
#pragma unroll 4
        for (int k = lane; k < p.depths * 8 * kCol2imChunk; k += 32) {
          const int c = k / kCol2imChunk, x = k % kCol2imChunk;
          const bool inside = channel + c < p.source_channels && column + x < p.w.source;
          const float value = inside ? from[c * plane + column + x] : 0.0F;
          *reinterpret_cast<std::uint32_t*>(to + col2im_source_place(p, c, x)) =
              kSplit ? __float_as_uint(value) : ptx::round_to_tf32(value);
        }
        ptx::mbarrier_arrive(full);
      }
    }
  }
}

/// Puts the filter in the order that products read, filled up with zeros; each of the consumers' threads handles four
/// channels of a column.
template <bool kSplit, int kColumns>
__device__ __forceinline__ void pack_filter(const Col2imPlan& p, const float* filter, uint4* to, int thread) {
  const int taps = p.kernel_h * p.kernel_w, part = p.filter_vectors() / p.parts;
#pragma unroll 4
  for (int i = thread; i < part; i += kCol2imConsumers) {
    const int column = i % kColumns, four = i / kColumns;
    // For groups whose columns are not neighbours in memory, as in conv.
    const int out_channel = p.filter_channel == taps ? 0 : column / taps;
    const float* from = filter + out_channel * (p.filter_channel - taps) + column;
    float values[4];
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) {
      const int channel = col2im_filter_channel(four, unit);
      const bool exists = column < p.used_columns() && channel < p.source_channels;
      values[unit] = exists ? from[channel * p.filter_source] : 0.0F;
    }
    uint4 units, tails;
    pack_vector<kSplit>(values, units, tails);
    to[i] = units;
    if constexpr (kSplit) to[part + i] = tails;
  }
}

}  // namespace adjoint::cuda::col2im
