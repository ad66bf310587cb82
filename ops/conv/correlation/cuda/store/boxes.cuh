// Writes float32 sums of the tensor-core kernel of conv and conv_transpose by the copy engine: staged as boxes of the
// output, each written by one instruction while the warp continues; correlation/store_boxes.h has their shapes.
#pragma once

#include <adjoint/core/cuda/pack.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/store_boxes.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/ops/conv/correlation/cuda/store/store.cuh>

#include <cstdint>

namespace adjoint::cuda::correlation {

/// Writes a round's sums to the warp's boxes at `staging`. `mask`: of exchange_chunks().
template <int kLog2Phases, bool kShifts, bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void stage_boxes(int round, const float (&sums)[kMTiles][kColumns / 2], const float* biases,
                                            unsigned char* staging, std::uint32_t mask, int lane) {
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart);
  constexpr CorrelationBoxes kBoxes(kLog2Phases, kShifts, kStaged, correlation_staged_positions(kMTiles, kApart));
  const std::uint32_t of_lane = kBoxes.byte(2 * (lane % 4), lane / 4);
  const auto place = [&](int column, int m) {
    // Chunks are permuted within 1024 bytes, so there are few places, with constants added to them.
    const std::uint32_t byte = kBoxes.byte(column, m);
    return staging + exchange_chunks(of_lane ^ (byte & 1023), mask) + (byte & ~1023U);
  };
  // For shifted boxes the same places, but of positions two further on in the line, wrapping at its end.
  const auto shifted = [&](int column, int m) {
    const int line_m = (m + lane / 4 - kBoxShift) & (kBoxes.line - 1);
    const std::uint32_t byte =
        kBoxes.byte(column + 1, m & ~(kBoxes.line - 1)) + kBoxes.byte(2 * (lane % 4), 0) + 4 * line_m;
    return staging + exchange_chunks(byte & 1023, mask) + (byte & ~1023U);
  };
  const auto put = [&](int block, int j, int h, const float(&lower)[2], const float(&upper)[2]) {
    const int m = 16 * j + 8 * h;
    if constexpr (kShifts) {
      *reinterpret_cast<float*>(place(8 * block, m)) = lower[0];
      *reinterpret_cast<float*>(place(8 * block + kStaged / 2, m)) = upper[0];
      *reinterpret_cast<float*>(shifted(8 * block, m)) = lower[1];
      *reinterpret_cast<float*>(shifted(8 * block + kStaged / 2, m)) = upper[1];
    } else if constexpr (kLog2Phases == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<float*>(place(8 * block + i, m)) = lower[i];
        *reinterpret_cast<float*>(place(8 * block + i + kStaged / 2, m)) = upper[i];
      }
    } else if constexpr (kLog2Phases == 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<Pack<float, 2>*>(place(8 * block + i, m)) = {{lower[i], upper[i]}};
      }
    } else if constexpr (kLog2Phases == 2) {
      *reinterpret_cast<Pack<float, 4>*>(place(8 * block, m)) = {{lower[0], lower[1], upper[0], upper[1]}};
    } else {
      *reinterpret_cast<Pack<float, 2>*>(place(8 * block, m)) = {{lower[0], lower[1]}};
      *reinterpret_cast<Pack<float, 2>*>(place(8 * block + kStaged / 2, m)) = {{upper[0], upper[1]}};
    }
  };
  for_round<0, kApart, kColumns, kMTiles>(round, sums, biases, lane, put);
}

/// A warp's part of a tile, round by round.
struct BoxStore {
  const CorrelationPlan& p;
  const CorrelationWork& work;
  CorrelationBoxes boxes;
  std::uint32_t staging;  // shared address
  int lane;

  /// Each lane writes a box, if there are so many: of a round that begins at position first_m and the first_column-th
  /// column of the tile's lower half. `maps`: for even and odd channels, if boxes are shifted.
  __device__ __forceinline__ void write(const TensorMap (&maps)[2], int first_m, int first_column) const {
    ptx::fence_async_proxy();
    __syncwarp();
    if (lane < boxes.count()) {
      const int box = lane % boxes.boxes, parity = lane / boxes.boxes % boxes.parities;
      const int set = lane / boxes.boxes / boxes.parities;
      const CorrelationPosition q = correlation_position(p, first_m + box * boxes.box_positions());
      const int segment_columns = p.tile_columns >> (p.segments - 1);
      const int first = work.tile_in_class * segment_columns + first_column;
      const int log2_half = boxes.log2_phases == 0 ? 0 : boxes.log2_phases - 1;
      const int channel = (first >> log2_half) + set * (p.tile_columns / 2);
      const int w = ((work.w + q.w) << boxes.log2_phases) + parity * 2 * kBoxShift;
      const int at[kTensorMapAxes] = {w, work.class_index, work.h + q.h,
                                      (work.group * p.n_channels + channel) / boxes.parities,
                                      static_cast<int>(work.n) + q.n};
      if (channel < p.n_channels) ptx::tensor_store(&maps[parity], at, staging + lane * boxes.box_bytes());
      ptx::bulk_commit();
    }
  }

  /// Writes the pixels that shifted boxes omit, two on both sides of odd channels' lines, and those that the copy
  /// engine omits, the last two of even channels' rows: one line per lane.
  __device__ __forceinline__ void write_ends(float* out, const unsigned char* values, int first_m,
                                             int first_column) const {
    if (lane >= boxes.count() * boxes.channels) return;
    const int within = lane % boxes.channels, box = lane / boxes.channels % boxes.boxes;
    const int parity = lane / boxes.channels / boxes.boxes % 2, set = lane / boxes.channels / boxes.boxes / 2;
    const int first = work.tile_in_class * p.tile_columns + first_column + set * (p.tile_columns / 2);
    const int channel = first + 2 * within + parity;
    const CorrelationPosition q = correlation_position(p, first_m + box * boxes.line);
    const int w = work.w + q.w, left = p.out_w - w;  // pixels from the line's first to the row's end
    if (channel >= p.n_channels || work.n + q.n >= p.batch || left <= 0) return;
    const unsigned char* const line = values + ((set * 2 + parity) * boxes.boxes + box) * boxes.box_bytes();
    const auto two = [&](int place) {
      const std::uint32_t byte = static_cast<std::uint32_t>(line - values) + (within * boxes.line + place) * 4;
      return *reinterpret_cast<const Pack<float, 2>*>(values + exchange_chunks(byte, 7));
    };
    float* const to =
        out + (((work.n + q.n) * p.groups + work.group) * p.n_channels + channel) * static_cast<std::int64_t>(p.out_w) +
        w;
    const int last = boxes.line - kBoxShift;
    if (parity == 0) {
      if (left <= boxes.line) *reinterpret_cast<Pack<float, 2>*>(to + left - 2) = two(left - 2);
    } else {
      *reinterpret_cast<Pack<float, 2>*>(to) = two(last);  // wraps at the line's end
      if (left > last) *reinterpret_cast<Pack<float, 2>*>(to + last) = two(last - kBoxShift);
    }
  }
};

/// Activates the staged values in place, in any order.
__device__ __forceinline__ void activate_boxes(const Activate<float>& activate, unsigned char* staging, int bytes,
                                               int lane) {
#pragma unroll 1
  for (int byte = 16 * lane; byte < bytes; byte += 16 * 32) {
    auto* const place = reinterpret_cast<Pack<float, 4>*>(staging + byte);
    Pack<float, 4> pixels = *place;
    activate(pixels.values);
    *place = pixels;
  }
}

/// Stores a warp's sums, some columns per round through its own boxes; the last may still be read from them afterwards.
template <int kLog2Phases, bool kShifts, bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_phases_in_boxes(const CorrelationPlan& p, const CorrelationOperands& operands,
                                                      const CorrelationWork& work,
                                                      const float (&sums)[kMTiles][kColumns / 2], const float* biases,
                                                      unsigned char* staging, int first_m, int lane) {
  constexpr int kTogether = kApart ? 1 : kMTiles;
  constexpr int kStaged = correlation_staged_columns(kColumns, kApart), kRounds = kColumns / kStaged;
  constexpr CorrelationBoxes kBoxes(kLog2Phases, kShifts, kStaged, 16 * kTogether);
  const std::uint32_t mask = correlation_box_width(p, kBoxes) / 4 - 1;
  const BoxStore store{p, work, kBoxes, ptx::shared_address(staging), lane};
#pragma unroll 1
  for (int round = 0; round < kRounds * (kMTiles / kTogether); ++round) {
    const int of_columns = kApart ? round % kRounds : round;
    const int from_m = kApart ? first_m + 64 * (round / kRounds) : first_m;
    ptx::bulk_wait_read();
    __syncwarp();
    stage_boxes<kLog2Phases, kShifts, kApart, kColumns, kMTiles>(round, sums, biases + of_columns * (kStaged / 2),
                                                                 staging, mask, lane);
    if (operands.linear != nullptr) {
      store.write(operands.linear_maps, from_m, of_columns * (kStaged / 2));
      if constexpr (kShifts)
        store.write_ends(static_cast<float*>(operands.linear), staging, from_m, of_columns * (kStaged / 2));
      ptx::bulk_wait_read();
    }
    if (!operands.activate.is_none()) {
      __syncwarp();
      activate_boxes(operands.activate, staging, kBoxes.bytes(), lane);
    }
    store.write(operands.out_maps, from_m, of_columns * (kStaged / 2));
    if constexpr (kShifts)
      store.write_ends(static_cast<float*>(operands.out), staging, from_m, of_columns * (kStaged / 2));
  }
}

/// Dispatches on the phases of a row.
template <bool kApart, int kColumns, int kMTiles>
__device__ __forceinline__ void store_tile_in_boxes(const CorrelationPlan& p, const CorrelationOperands& operands,
                                                    const CorrelationWork& work,
                                                    const float (&sums)[kMTiles][kColumns / 2], const float* biases,
                                                    unsigned char* staging, int first_m, int lane) {
  const auto store = [&]<int kLog2Phases, bool kShifts = false>() {
    store_phases_in_boxes<kLog2Phases, kShifts, kApart, kColumns, kMTiles>(p, operands, work, sums, biases, staging,
                                                                           first_m, lane);
  };
  if constexpr (correlation_staged_positions(kMTiles, kApart) >= 32) {
    if (correlation_shifts_boxes(p)) return store.template operator()<0, true>();
  }
  by_phases(p.out_stride_w, store);
}

}  // namespace adjoint::cuda::correlation
