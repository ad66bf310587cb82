// The stages of a reduction on the CPU, for any rule (combine.h).
//
// A chunk is rows of `inner` elements. They are dealt to lanes, element i of the chunk to lane i mod (m * inner), with
// m rows side by side if rows are short: one loop that vectorises for every shape. Lanes add up in blocks of
// kBlockSteps, so that rounding errors grow with two short sums instead of one long one; then the m rows are folded, by
// halves, into one.
#pragma once

#include <adjoint/core/base/cpu_targets.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/stages.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace adjoint::cpu {

inline constexpr std::int64_t kLanes = 32;      // target number in parallel: eight SSE registers of float32
inline constexpr std::int64_t kMaxLanes = 256;  // columns that one task handles: its sums stay in the L1 cache
inline constexpr std::int64_t kBlockSteps = 32;
inline constexpr std::int64_t kShortExtent = 64;  // below, rows stay separate: folding costs more than it saves
inline constexpr std::int64_t kShortRow = 512;    // below, a row has its own lanes
inline constexpr std::int64_t kRowLanes = 8;
inline constexpr std::int64_t kTaskElements = 32768;

/// The number of rows side by side.
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

// Sums a short row in a few separate lanes.
template <class Rule, class T>
typename Rule::Acc sum_short_row(const Rule& rule, const T* data, std::int64_t extent) {
  typename Rule::Acc sums[kRowLanes];
  std::fill(sums, sums + kRowLanes, rule.identity());
  std::int64_t i = 0;
  for (; i + kRowLanes <= extent; i += kRowLanes) {
#pragma GCC unroll 1  // otherwise GCC unrolls the lanes into scalars
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

/// sums[c] is the total of column c. There is room for kMaxLanes, all of which are written.
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

/// A rule's loops behind pointers, so that the stages are compiled once for all rules and dtypes. Sums have type Acc,
/// results Rule::Out; both are trivially copyable.
struct StageLoops {
  std::int64_t element_bytes, sum_bytes, result_bytes;
  const void *sum_context, *rule;
  /// The sums of a chunk of elements.
  void (*sum)(const void* context, const void* data, const Chunk& chunk, void* sums);
  /// The sums of a chunk of an earlier stage's sums.
  void (*sum_again)(const void* rule, const void* data, const Chunk& chunk, void* sums);
  /// The results of `count` sums.
  void (*finish)(const void* rule, const void* sums, void* results, std::int64_t count);
};
inline constexpr std::int64_t kMaxSumBytes = 32;

void run_stages(const StageLoops& loops, const Tensor& in, Tensor& out, const ReduceAttr& attr);

/// All stages: from elements T through Rule::Acc, the type of unfinished results, to Rule::Out in `out`. sum(data,
/// chunk, sums) adds elements up. attr.from is not empty.
template <class T, class Rule, class SumChunk>
void run_stages(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr, const SumChunk& sum) {
  using Acc = typename Rule::Acc;
  using Out = typename Rule::Out;
  static_assert(sizeof(Acc) <= kMaxSumBytes && std::is_trivially_copyable_v<Acc>);
  const StageLoops loops{
      .element_bytes = sizeof(T),
      .sum_bytes = sizeof(Acc),
      .result_bytes = sizeof(Out),
      .sum_context = &sum,
      .rule = &rule,
      .sum =
          [](const void* context, const void* data, const Chunk& chunk, void* sums) {
            (*static_cast<const SumChunk*>(context))(static_cast<const T*>(data), chunk, static_cast<Acc*>(sums));
          },
      .sum_again =
          [](const void* context, const void* data, const Chunk& chunk, void* sums) {
            sum_chunk(*static_cast<const Rule*>(context), static_cast<const Acc*>(data), chunk,
                      static_cast<Acc*>(sums));
          },
      .finish =
          [](const void* context, const void* sums, void* results, std::int64_t count) {
            const auto& finishing = *static_cast<const Rule*>(context);
            const auto* const from = static_cast<const Acc*>(sums);
            auto* const to = static_cast<Out*>(results);
            for (std::int64_t l = 0; l < count; ++l) to[l] = finishing.finish(from[l]);
          },
  };
  run_stages(loops, in, out, attr);
}

/// All stages of elements T under `rule`. attr.from is not empty.
template <class T, class Rule>
void reduce_by(const Rule& rule, const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  run_stages<T>(rule, in, out, attr, [&](const T* data, const Chunk& chunk, typename Rule::Acc* sums) {
    if constexpr (std::is_floating_point_v<T> && std::is_floating_point_v<typename Rule::Acc>) {
      // Each lane adds up separately, so vectors of any length give the same bits.
      run_for_isa<CpuIsa::kAvx2>([&] { sum_chunk(rule, data, chunk, sums); });
    } else {
      sum_chunk(rule, data, chunk, sums);
    }
  });
}

}  // namespace adjoint::cpu
