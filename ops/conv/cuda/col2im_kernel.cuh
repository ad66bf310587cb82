// conv and conv_transpose with few output channels: source times filter by wgmma, taps side by side, and the sums added
// up where they overlap (col2im_plan.h tells how the work is cut). Of a block, a warpgroup multiplies and adds, a chunk
// after the other: the products of the next are under way while the sums of this one are added. A warp besides brings
// the source, into a ring of stages with a full and an empty mbarrier each. The filter stays in shared memory.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/col2im_plan.h>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/wgmma.cuh>
#include <adjoint/ops/conv/cuda/arithmetic.cuh>
#include <adjoint/ops/conv/cuda/line.cuh>

#include <cstdint>

namespace adjoint::cuda::col2im {

struct Operands : line::Operands<float> {
  TensorMap map;  // of the source, where its rows begin at multiples of 16 bytes (`vectors`)
};

/// Where a block's shared memory lies.
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

/// The chunks of a block's tiles, which are every gridDim'th, in order.
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

/// A place in the ring of stages.
struct Turn {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

/// Brings the source of the block's tiles; one warp.
template <bool kSplit>
__device__ __forceinline__ void bring_source(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                             int lane) {
  const std::int64_t plane = static_cast<std::int64_t>(p.h.source) * p.w.source;
  const int box_bytes = p.stage_bytes() / 2;
  Turn turn;
#pragma unroll 1
  for (Chunks chunks(p); chunks.left(); chunks.next()) {
#pragma unroll 1
    for (int i = 0; i < p.stages; ++i, turn.advance(p.source_stages)) {
      const int channel = i * p.depths * 8, column = chunks.column();
      const std::uint32_t full = shared.full + 8 * turn.stage;
      ptx::mbarrier_wait(shared.empty + 8 * turn.stage, turn.parity ^ 1);
      if (operands.vectors) {
        if (lane != 0) continue;
        const std::uint32_t to = shared.source + turn.stage * p.stage_bytes();
        ptx::mbarrier_arrive_expect_bytes(full, p.stage_bytes());
        for (int half = 0; half < 2; ++half) {
          const int at[kTensorMapAxes] = {column + half * kCol2imBox, chunks.row, chunks.tile.sample, channel, 0};
          ptx::tensor_copy(to + half * box_bytes, &operands.map, at, full);
        }
      } else {
        // Where the tensor begins between multiples of 16 bytes: the same values at the same places.
        unsigned char* const to = ptx::dynamic_smem() + kCol2imBarrierBytes + turn.stage * p.stage_bytes();
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

/// The filter as products take it, and zeros to fill it up; the consumers' threads, a column's four channels each.
template <bool kSplit, int kColumns>
__device__ __forceinline__ void pack_filter(const Col2imPlan& p, const float* filter, uint4* to, int thread) {
  const int taps = p.kernel_h * p.kernel_w, part = p.filter_vectors() / p.parts;
#pragma unroll 4
  for (int i = thread; i < part; i += kCol2imConsumers) {
    const int column = i % kColumns, four = i / kColumns;
    // Where a group's columns are not neighbours in memory, as conv's.
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

/// A chunk's products.
template <bool kSplit, int kColumns, int kDepths>
struct Multiplier {
  static constexpr int kSums = kColumns / 2;
  static constexpr int kRead = kSplit ? 2 : kDepths;  // of a stage's depths at once

  const Col2imPlan& p;
  const Shared& shared;
  Turn turn;
  std::uint32_t a[kRead][4], tails[kSplit ? kRead : 1][4];
  float sums[kSums];
  float totals[kSplit ? kSums : 1];

  /// Reads depths of a stage: of each eight channels a lane's two, at its two columns.
  __device__ __forceinline__ void read_depths(int first, int warp, int lane) {
    const std::uint32_t stage = shared.source + turn.stage * p.stage_bytes() + warp / 2 * (kDepths * 8 * 128);
    const int chunk = warp % 2 * 4 + lane / 8, channel = lane % 4 * 2;
    const std::uint32_t within = static_cast<std::uint32_t>(lane / 4 % 2 * 8 + channel * 128 + first * 1024);
    const std::uint32_t even = stage + within + static_cast<std::uint32_t>(chunk ^ channel) * 16;
    const std::uint32_t odd = stage + within + 128 + static_cast<std::uint32_t>(chunk ^ (channel + 1)) * 16;
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      std::uint32_t first_channel[2], second_channel[2];
      ptx::load_shared_pair(first_channel, even + d * 1024);
      ptx::load_shared_pair(second_channel, odd + d * 1024);
      a[d][0] = first_channel[0];
      a[d][1] = first_channel[1];
      a[d][2] = second_channel[0];
      a[d][3] = second_channel[1];
    }
  }

  __device__ __forceinline__ void pin_operands() {
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      wgmma::pin(a[d]);
      if constexpr (kSplit) wgmma::pin(tails[d]);
    }
  }

  /// Begins the products of what is read. `accumulate`: 0 where sums begin with them.
  __device__ __forceinline__ void multiply(std::uint64_t filter, int accumulate) {
    constexpr wgmma::Operand kTF32 = wgmma::Operand::kTF32;
    pin_operands();
    wgmma::pin(sums);
    wgmma::fence();
#pragma unroll
    for (int d = 0; d < kRead; ++d) {
      const std::uint64_t b = wgmma::moved(filter, 2 * d * kColumns);
      wgmma::multiply<kTF32, kColumns>(sums, a[d], b, d == 0 ? accumulate : 1);
      if constexpr (kSplit) {
        wgmma::multiply<kTF32, kColumns>(sums, a[d], wgmma::moved(b, p.filter_vectors() / 2), 1);
        wgmma::multiply<kTF32, kColumns>(sums, tails[d], b, 1);
      }
    }
    wgmma::commit();
  }

  __device__ __forceinline__ void finish() {
    wgmma::wait<0>();
    wgmma::pin(sums);
    pin_operands();
  }

  /// A stage's products of heads and tails, two depths' at a time added to ordinary registers, which lose no bits over
  /// many terms.
  __device__ __forceinline__ void multiply_split(std::uint64_t filter, int warp, int lane) {
#pragma unroll
    for (int first = 0; first < kDepths; first += kRead) {
      read_depths(first, warp, lane);
#pragma unroll
      for (int d = 0; d < kRead; ++d) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float value = __uint_as_float(a[d][r]);
          split_tf32(value, a[d][r], tails[d][r]);
        }
      }
      multiply(wgmma::moved(filter, 2 * first * kColumns), 0);
      finish();
#pragma unroll
      for (int i = 0; i < kSums; ++i) totals[i] += sums[i];
    }
  }

  /// A stage's products, under way when it returns unless float32 is split.
  __device__ __forceinline__ void begin_stage(std::uint64_t filter, int accumulate, int warp, int lane) {
    ptx::mbarrier_wait(shared.full + 8 * turn.stage, turn.parity);
    if constexpr (kSplit) {
      multiply_split(filter, warp, lane);
    } else {
      read_depths(0, warp, lane);
      multiply(filter, accumulate);
    }
    ptx::mbarrier_arrive(shared.empty + 8 * turn.stage);
    turn.advance(p.source_stages);
  }

  /// Begins a chunk's products. Between those that are under way at the end and finish() is no way around either, or
  /// the compiler waits for them at once.
  __device__ __forceinline__ void begin(int warp, int lane) {
    if constexpr (kSplit) {
#pragma unroll
      for (float& total : totals) total = 0;
    }
    std::uint64_t filter = wgmma::matrix_descriptor(ptx::shared_address(shared.filter), kColumns * 16);
#pragma unroll 1
    for (int i = 0; i + 1 < p.stages; ++i) {
      begin_stage(filter, i, warp, lane);
      if constexpr (!kSplit) finish();
      filter = wgmma::moved(filter, 2 * kDepths * kColumns);
    }
    begin_stage(filter, p.stages - 1, warp, lane);
  }

  __device__ __forceinline__ const auto& results() const {
    if constexpr (kSplit) {
      return totals;
    } else {
      return sums;
    }
  }

  /// The sums of two neighbouring columns of the source to shared memory; zeros for those outside, of which a product
  /// with infinity is none. `left`: of the source, from the chunk's first column on.
  template <bool kAll>
  __device__ __forceinline__ void store_columns(int left, int warp, int lane) const {
    const auto& values = results();
    const int column = 16 * warp + lane / 4 * 2, used = p.used_columns();
    const std::uint32_t next = 4 * p.sum_pitch;
    std::uint32_t to = ptx::shared_address(shared.sums + p.margin + lane % 4 * 2 * p.sum_pitch + column);
    const bool first = kAll || column < left, second = kAll || column + 1 < left;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j, to += 8 * next) {
      if (8 * j >= kColumns / 2 && 8 * j >= used) break;
      ptx::store_shared_pair(to, first ? values[4 * j] : 0, second ? values[4 * j + 2] : 0);
      ptx::store_shared_pair(to + next, first ? values[4 * j + 1] : 0, second ? values[4 * j + 3] : 0);
    }
  }
  __device__ __forceinline__ void store(int left, int warp, int lane) const {
    if (left >= kCol2imChunk) {
      store_columns<true>(left, warp, lane);
    } else {
      store_columns<false>(left, warp, lane);
    }
  }
};

/// Where the results of a row of positions are that each row of taps of a channel reaches from a row of the source: a
/// shared address, or 0 for none. Threads of the warpgroup; the sums before have been added.
__device__ __forceinline__ void find_results(const Col2imPlan& p, const Shared& shared, const Col2imTile& tile, int row,
                                             int thread) {
  if (thread >= p.channels * p.kernel_h) return;
  const int channel = thread / p.kernel_h, tap = thread % p.kernel_h;
  int position = row - p.tap_offset_h[tap] - tile.row;
  const bool inside = position >= 0 && position < tile.rows;
  p.ring_divider.split(position);
  const int place = ((position * p.h.phases + p.tap_phase_h[tap]) * p.channels + channel) * p.w.phases * p.result_pitch;
  shared.places[thread] = inside ? ptx::shared_address(shared.results + place) : 0;
}

/// Adds the chunk's sums to the results that they overlap; a thread one (row of taps, position) after the other, kItems
/// at once, which are all read before any is written. kPhases, of the columns, have kTaps taps each, or where not kFull
/// less.
template <int kPhases, int kTaps, bool kFull = true>
__device__ __forceinline__ void add_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  constexpr int kItems = 2;
  const int pairs = p.channels * p.kernel_h, items = pairs * p.reached_positions();
  const int first_q = at.column() - p.w.offset[p.w.offsets - 1] - at.tile.column;  // of the tile's positions
  const std::uint32_t first_sum = ptx::shared_address(shared.sums + p.margin - p.w.span());
  const std::uint32_t places = ptx::shared_address(shared.places), pair_bytes = 4 * p.kernel_w * p.sum_pitch;
#pragma unroll 1
  for (int first = thread; first < items; first += kItems * kCol2imConsumers) {
    std::uint32_t sums[kItems], to[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int position = first + k * kCol2imConsumers;
      const bool exists = position < items;
      const int pair = min(p.reached_divider.split(position), pairs - 1), q = first_q + position;
      const std::uint32_t row = ptx::load_shared(places + 4 * pair);
      sums[k] = first_sum + pair * pair_bytes + 4 * position;
      to[k] = exists && row != 0 && static_cast<unsigned>(q) < static_cast<unsigned>(at.tile.columns) ? row + 4 * q : 0;
    }
    float values[kItems][kPhases], before[kItems][kPhases];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        values[k][phase] = before[k][phase] = 0;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          const int place = p.tap_place[phase][i];
          if (!kFull && place == kNoCol2imTap) continue;
          const float value = __uint_as_float(ptx::load_shared(sums[k] + place));
          values[k][phase] = i == 0 ? value : values[k][phase] + value;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        if (to[k] != 0) before[k][phase] = __uint_as_float(ptx::load_shared(to[k] + 4 * phase * p.result_pitch));
      }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        const float sum = before[k][phase] + values[k][phase];
        if (to[k] != 0) ptx::store_shared(to[k] + 4 * phase * p.result_pitch, __float_as_uint(sum));
      }
    }
  }
}

/// The same for any numbers.
__device__ __forceinline__ void add_any_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  const int items = p.channels * p.kernel_h * p.reached_positions();
  const int first_q = at.column() - p.w.offset[p.w.offsets - 1] - at.tile.column;
  const std::uint32_t first_sum = ptx::shared_address(shared.sums + p.margin - p.w.span());
#pragma unroll 1
  for (int i = thread; i < items; i += kCol2imConsumers) {
    int position = i;
    const int pair = p.reached_divider.split(position), q = first_q + position;
    const std::uint32_t row = shared.places[pair];
    if (row == 0 || q < 0 || q >= at.tile.columns) continue;
    const std::uint32_t sums = first_sum + 4 * (pair * p.kernel_w * p.sum_pitch + position);
#pragma unroll 1
    for (int phase = 0; phase < p.w.phases; ++phase) {
      const std::uint32_t to = row + 4 * (q + phase * p.result_pitch);
      float value = 0;
#pragma unroll 4
      for (int k = 0; k < p.phase_taps; ++k) {
        const int place = p.tap_place[phase][k];
        if (place != kNoCol2imTap) value += __uint_as_float(ptx::load_shared(sums + place));
      }
      ptx::store_shared(to, __float_as_uint(__uint_as_float(ptx::load_shared(to)) + value));
    }
  }
}

__device__ __forceinline__ void add_sums(const Col2imPlan& p, const Shared& shared, const Chunks& at, int thread) {
  const auto key = [](int phases, int taps, bool full) { return (phases * 64 + taps) * 2 + (full ? 1 : 0); };
  switch (key(p.w.phases, p.phase_taps, p.kernel_w == p.w.phases * p.phase_taps)) {
    case key(1, 3, true): return add_sums<1, 3>(p, shared, at, thread);
    case key(1, 5, true): return add_sums<1, 5>(p, shared, at, thread);
    case key(1, 7, true): return add_sums<1, 7>(p, shared, at, thread);
    case key(1, 9, true): return add_sums<1, 9>(p, shared, at, thread);
    case key(2, 2, true): return add_sums<2, 2>(p, shared, at, thread);
    case key(2, 2, false): return add_sums<2, 2, false>(p, shared, at, thread);
    case key(2, 3, true): return add_sums<2, 3>(p, shared, at, thread);
    case key(2, 3, false): return add_sums<2, 3, false>(p, shared, at, thread);
    case key(3, 3, true): return add_sums<3, 3>(p, shared, at, thread);
    case key(4, 2, true): return add_sums<4, 2>(p, shared, at, thread);
    case key(4, 3, false): return add_sums<4, 3, false>(p, shared, at, thread);
    default: return add_any_sums(p, shared, at, thread);
  }
}

/// Stores the results of a row of positions, and leaves zeros. kPhases of the columns, or 0 for any number.
template <int kPhases, bool kPlain>
__device__ __forceinline__ void store_row(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                          const Col2imTile& tile, int row, int thread) {
  int slot = row;
  p.ring_divider.split(slot);
  const int phases = kPhases > 0 ? kPhases : p.w.phases, count = tile.columns * phases;
  const int first = tile.column * phases - p.w.shift;  // of results
  const int begin = max(0, -first), end = min(count, p.w.result - first);
  std::uint32_t from = ptx::shared_address(shared.results + slot * p.h.phases * p.row_results());
  const int y = (tile.row + row) * p.h.phases - p.h.shift;
  const std::int64_t plane = static_cast<std::int64_t>(p.h.result) * p.w.result;
  const std::int64_t sample = tile.sample * static_cast<std::int64_t>(p.channels) * plane;
#pragma unroll 1
  for (int phase_h = 0; phase_h < p.h.phases; ++phase_h) {
    const bool is_result = static_cast<unsigned>(y + phase_h) < static_cast<unsigned>(p.h.result);
    std::int64_t place = sample + static_cast<std::int64_t>(y + phase_h) * p.w.result + first;
#pragma unroll 1
    for (int channel = 0; channel < p.channels; ++channel, from += 4 * phases * p.result_pitch, place += plane) {
      const float bias = line::bias_of(p, 0, operands, channel);
      float* const to = operands.result + place;
#pragma unroll 2
      for (int i = thread; i < count; i += kCol2imConsumers) {
        int phase = i, position;
        if constexpr (kPhases > 0) {
          position = static_cast<int>(static_cast<unsigned>(i) / kPhases);
          phase -= position * kPhases;
        } else {
          position = p.phase_divider.split(phase);
        }
        const std::uint32_t at = from + 4 * (phase * p.result_pitch + position);
        const float value = __uint_as_float(ptx::load_shared(at)) + bias;
        ptx::store_shared(at, 0);
        if (!is_result || i < begin || i >= end) continue;
        if constexpr (kPlain) {
          to[i] = value;
        } else {
          line::store_result(operands, place + i, value);
        }
      }
    }
  }
}

__device__ __forceinline__ void store_row(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                          const Col2imTile& tile, int row, int thread) {
  const bool plain = operands.activate.is_none() && operands.linear == nullptr;
  switch (plain ? p.w.phases : 0) {
    case 1: return store_row<1, true>(p, operands, shared, tile, row, thread);
    case 2: return store_row<2, true>(p, operands, shared, tile, row, thread);
    case 3: return store_row<3, true>(p, operands, shared, tile, row, thread);
    case 4: return store_row<4, true>(p, operands, shared, tile, row, thread);
    default: return store_row<0, false>(p, operands, shared, tile, row, thread);
  }
}

/// A block's rows of results, of tile after tile, as they are stored.
struct Rows {
  const Col2imPlan& p;
  const Operands& operands;
  const Shared& shared;
  int index;
  Col2imTile tile;
  int row = 0;  // the next, of the tile's

  __device__ __forceinline__ Rows(const Col2imPlan& plan, const Operands& of_launch, const Shared& of_block)
      : p(plan), operands(of_launch), shared(of_block), index(static_cast<int>(blockIdx.x)) {
    enter_tile();
  }
  /// Stores what no source row from that one on reaches, of that tile and those before.
  __device__ __forceinline__ void store_before(int tile_index, int source_row, int thread) {
#pragma unroll 1
    while (index < tile_index ||
           (index == tile_index && row < tile.rows && tile.row + row + p.h.offset[p.h.offsets - 1] < source_row)) {
      store_row(p, operands, shared, tile, row, thread);
      if (++row < tile.rows) continue;
      index += static_cast<int>(gridDim.x);
      enter_tile();
    }
  }

 private:
  __device__ __forceinline__ void enter_tile() {
    row = 0;
    if (index < static_cast<int>(p.blocks())) tile = col2im_tile(p, index);
  }
};

/// Of one warpgroup: multiplies the block's chunks, adds their sums and stores the results.
template <bool kSplit, int kColumns, int kDepths>
__device__ __forceinline__ void multiply_and_add(const Col2imPlan& p, const Operands& operands, const Shared& shared,
                                                 int thread, int warp, int lane) {
  pack_filter<kSplit, kColumns>(p, operands.filter, shared.filter, thread);
  auto* const zeros = reinterpret_cast<uint4*>(shared.sums);
  for (int i = thread; i < (p.sum_elements() + p.ring_elements()) / 4; i += kCol2imConsumers) {
    zeros[i] = make_uint4(0, 0, 0, 0);
  }
  ptx::fence_async_proxy();
  ptx::barrier<kCol2imConsumers>(1);
  Multiplier<kSplit, kColumns, kDepths> multiplier{p, shared};
  Rows rows(p, operands, shared);
  Chunks next(p), chunk = next;
  const auto add = [&] {
    if (chunk.chunk == 0) {
      rows.store_before(chunk.index, chunk.row, thread);
      ptx::barrier<kCol2imConsumers>(1);  // the ring's places that this row takes are zeros
    }
    add_sums(p, shared, chunk, thread);
  };
  if (next.left()) {
    multiplier.begin(warp, lane);
    // The way on is the one on which products are begun: where ways meet, the compiler would wait for them.
#pragma unroll 1
    for (;;) {
      chunk = next;
      if constexpr (!kSplit) multiplier.finish();
      ptx::barrier<kCol2imConsumers>(1);  // the sums before have been added
      multiplier.store(p.w.source - chunk.column(), warp, lane);
      if (chunk.chunk == 0) find_results(p, shared, chunk.tile, chunk.row, thread);
      ptx::barrier<kCol2imConsumers>(1);
      next.next();
      if (!next.left()) break;
      multiplier.begin(warp, lane);
      add();
    }
    add();
    ptx::barrier<kCol2imConsumers>(1);
  }
  rows.store_before(static_cast<int>(p.blocks()), 0, thread);
}

template <Arithmetic kArithmetic, int kColumns, int kDepths>
__global__ void __launch_bounds__(kCol2imThreads, 2)
    col2im_kernel(const __grid_constant__ Col2imPlan p, const __grid_constant__ Operands operands) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // other architectures of a build get an empty kernel, which nothing launches
  constexpr bool kSplit = ArithmeticTraits<kArithmetic>::kSplit;
  const Shared shared = shared_of(p);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
  if (thread == 0) {
    for (int i = 0; i < p.source_stages; ++i) {
      ptx::mbarrier_init(shared.full + 8 * i, operands.vectors ? 1 : 32);
      ptx::mbarrier_init(shared.empty + 8 * i, kCol2imConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == kCol2imConsumers / 32) {
    bring_source<kSplit>(p, operands, shared, lane);
  } else {
    multiply_and_add<kSplit, kColumns, kDepths>(p, operands, shared, thread, warp, lane);
  }
#endif
}

}  // namespace adjoint::cuda::col2im
