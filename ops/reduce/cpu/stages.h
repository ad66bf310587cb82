// The stages of a reduction on the CPU, for any rule (combine.h).
//
// A chunk is rows of `inner` elements. They are dealt to lanes, element i of the chunk to lane i mod (m * inner), with
// m rows side by side where rows are short: one loop that vectorises whatever the shape. Lanes add up in blocks of
// kBlockSteps, so that rounding errors grow with two short sums instead of one long one; then the m rows fold, by
// halves, into one.
#pragma once

#include <adjoint/core/cpu_targets.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/stages.h>

#include <algorithm>
#include <bit>

namespace adjoint::cpu {

inline constexpr std::int64_t kLanes = 32;      // wanted side by side: eight SSE registers of float32
inline constexpr std::int64_t kMaxLanes = 256;  // columns that one task handles: its sums stay in the L1 cache
inline constexpr std::int64_t kBlockSteps = 32;
inline constexpr std::int64_t kShortExtent = 64;  // below, rows stand alone: folding costs more than it saves
inline constexpr std::int64_t kShortRow = 512;    // below, a row has lanes of its own
inline constexpr std::int64_t kRowLanes = 8;
inline constexpr std::int64_t kTaskElements = 32768;

/// Rows side by side.
inline std::int64_t rows_abreast(std::int64_t extent, std::int64_t inner) {
  if (inner >= kLanes || extent < kShortExtent) return 1;
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(kLanes / inner)));
}

inline std::int64_t chunk_rows(std::int64_t extent, std::int64_t inner) {
  const std::int64_t abreast = rows_abreast(extent, inner);
  const std::int64_t lanes = abreast * std::min(inner, kMaxLanes);
  return abreast * std::max(kBlockSteps, kTaskElements / lanes);
}

/// One task's share of a stage: `rows` rows of `columns` of the `inner` columns.
struct Chunk {
  std::int64_t rows, columns, inner, abreast;
};

// sums[l] = the total over steps s of data[s * pitch + l]; the last `tail` elements belong to the first lanes.
template <class Rule, class T>
void sum_lanes(const Rule& rule, const T* data, std::int64_t steps, std::int64_t pitch, std::int64_t lanes,
               std::int64_t tail, typename Rule::Acc* sums) {
  typename Rule::Acc block[kMaxLanes];
  std::fill(sums, sums + lanes, rule.identity());
  for (std::int64_t first = 0; first < steps; first += kBlockSteps) {
    const std::int64_t last = std::min(steps, first + kBlockSteps);
    std::fill(block, block + lanes, rule.identity());
    for (std::int64_t s = first; s < last; ++s) {
      const T* row = data + s * pitch;
      for (std::int64_t l = 0; l < lanes; ++l) block[l] = rule.add(block[l], row[l]);
    }
    for (std::int64_t l = 0; l < lanes; ++l) sums[l] = rule.combine(sums[l], block[l]);
  }
  const T* rest = data + steps * pitch;
  for (std::int64_t l = 0; l < tail; ++l) sums[l] = rule.add(sums[l], rest[l]);
}

// A short row, in a few lanes of its own.
template <class Rule, class T>
typename Rule::Acc sum_short_row(const Rule& rule, const T* data, std::int64_t extent) {
  typename Rule::Acc sums[kRowLanes];
  std::fill(sums, sums + kRowLanes, rule.identity());
  std::int64_t i = 0;
  for (; i + kRowLanes <= extent; i += kRowLanes) {
#pragma GCC unroll 1  // left to itself, GCC unrolls the lanes into scalars
    for (std::int64_t l = 0; l < kRowLanes; ++l) sums[l] = rule.add(sums[l], data[i + l]);
  }
  typename Rule::Acc sum = rule.identity();
  for (; i < extent; ++i) sum = rule.add(sum, data[i]);
  if (extent < kRowLanes) return sum;
  for (std::int64_t half = kRowLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) sums[l] = rule.combine(sums[l], sums[half + l]);
  }
  return rule.combine(sums[0], sum);
}

/// sums[c]: the total of column c. There is room for kMaxLanes, which are written on the way.
template <class Rule, class T>
void sum_chunk(const Rule& rule, const T* data, const Chunk& chunk, typename Rule::Acc* sums) {
  const auto& [rows, columns, inner, abreast] = chunk;
  if (inner == 1 && rows < kShortRow) {
    sums[0] = sum_short_row(rule, data, rows);
    return;
  }
  const std::int64_t lanes = abreast * columns;
  const std::int64_t steps = rows / abreast;
  const std::int64_t tail = (rows - steps * abreast) * columns;
  if (lanes == kLanes) {
    sum_lanes(rule, data, steps, abreast * inner, std::int64_t{kLanes}, tail, sums);
  } else {
    sum_lanes(rule, data, steps, abreast * inner, lanes, tail, sums);
  }
  for (std::int64_t half = abreast / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half * columns; ++l) sums[l] = rule.combine(sums[l], sums[half * columns + l]);
  }
}

// sum(data, chunk, sums) adds a chunk up into Acc, finish(one sum) is what is stored of it.
template <class Acc, class T, class Result, class SumChunk, class Finish>
void run_stage(const T* in, Result* out, const ReduceStage& stage, const SumChunk& sum, const Finish& finish) {
  const std::int64_t abreast = rows_abreast(stage.extent, stage.inner);
  const std::int64_t column_blocks = (stage.inner + kMaxLanes - 1) / kMaxLanes;
  const std::int64_t items = stage.outer * stage.chunks * column_blocks;
  const std::int64_t item_elements = std::min(stage.extent, stage.chunk_rows) * std::min(stage.inner, kMaxLanes);
  parallel_ranges(items, std::max<std::int64_t>(1, kTaskElements / item_elements),
                  [&](std::int64_t begin, std::int64_t end) {
                    Acc sums[kMaxLanes];
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t column = item % column_blocks * kMaxLanes;
                      const std::int64_t part = item / column_blocks % stage.chunks;
                      const std::int64_t outer = item / column_blocks / stage.chunks;
                      const std::int64_t row = part * stage.chunk_rows;
                      const Chunk chunk{std::min(stage.chunk_rows, stage.extent - row),
                                        std::min(kMaxLanes, stage.inner - column), stage.inner, abreast};
                      sum(in + (outer * stage.extent + row) * stage.inner + column, chunk, sums);
                      Result* to = out + (outer * stage.chunks + part) * stage.inner + column;
                      for (std::int64_t l = 0; l < chunk.columns; ++l) to[l] = finish(sums[l]);
                    }
                  });
}

/// All stages: from elements T through Rule::Acc, in which unfinished results are kept, to Rule::Out in `out`.
/// sum(data, chunk, sums) adds elements up. attr.from has some.
template <class T, class Rule, class SumChunk>
void run_stages(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr, const SumChunk& sum) {
  using Acc = typename Rule::Acc;
  const auto keep = [](const Acc& acc) { return acc; };
  const auto finish = [&](const Acc& acc) { return rule.finish(acc); };
  const auto sum_partial = [&](const Acc* data, const Chunk& chunk, Acc* sums) { sum_chunk(rule, data, chunk, sums); };
  const T* const elements = static_cast<const T*>(in.raw_data());
  auto* const result = static_cast<typename Rule::Out*>(out.raw_mutable_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  // Axes of one element need no adding up, but the dtype may change.
  if (!stages.next(stage, chunk_rows)) {
    stage = {.outer = 1, .extent = 1, .inner = in.numel()};
    return run_stage<Acc>(elements, result, stage, sum, finish);
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, chunk_rows);
    const auto bytes = now.results() * static_cast<std::int64_t>(sizeof(Acc));
    Tensor next = more ? make_tensor({Shape{bytes}, kUInt8}, kCPU) : Tensor{};
    auto* const to = more ? static_cast<Acc*>(next.raw_mutable_data()) : nullptr;
    if (!unfinished.defined()) {
      more ? run_stage<Acc>(elements, to, now, sum, keep) : run_stage<Acc>(elements, result, now, sum, finish);
    } else {
      const auto* from = static_cast<const Acc*>(unfinished.raw_data());
      more ? run_stage<Acc>(from, to, now, sum_partial, keep) : run_stage<Acc>(from, result, now, sum_partial, finish);
    }
    unfinished = next;
  }
}

/// All stages of elements T under `rule`. attr.from has some.
template <class T, class Rule>
void reduce_by(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  run_stages<T>(rule, in, out, attr, [&](const T* data, const Chunk& chunk, auto* sums) {
    if constexpr (std::is_floating_point_v<T> && std::is_floating_point_v<typename Rule::Acc>) {
      // Each lane adds up by itself, so that vectors of any length give the same bits.
      run_for_isa<CpuIsa::kAvx2>([&] { sum_chunk(rule, data, chunk, sums); });
    } else {
      sum_chunk(rule, data, chunk, sums);
    }
  });
}

}  // namespace adjoint::cpu
