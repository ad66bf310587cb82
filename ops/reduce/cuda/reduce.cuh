// Reductions on CUDA: one kernel, whose policy defines the source of elements and their combination. For .cu files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/cuda/tiling.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/core/cuda/lanes.cuh>

#include <algorithm>
#include <type_traits>

namespace adjoint::cuda {

/// The number of neighbours that a thread reads together: 16 bytes, if elements are numbers in memory.
template <class T>
inline constexpr int kReducePack = std::is_arithmetic_v<T> || is_reduced_float<T>
                                       ? static_cast<int>(sizeof(T) == 1 ? 8 : 16 / sizeof(T))
                                       : 1;

/// V neighbours, in one load if they are aligned.
template <int V, class T>
__device__ Pack<T, V> load_pack(const T* data, std::int64_t pack, bool aligned) {
  if (aligned) return *reinterpret_cast<const Pack<T, V>*>(data + pack * V);
  Pack<T, V> loaded;
#pragma unroll
  for (int v = 0; v < V; ++v) loaded.values[v] = data[pack * V + v];
  return loaded;
}

/// Elements in memory order. A source may compute instead: load(i) reads the data of element i, and value(that, i)
/// computes it. Each element is requested once. kPack above 1: load_pack reads that many neighbours, in one access if
/// they are `aligned`; a source may also have values(), which computes all of them.
template <class T>
struct Elements {
  using In = T;
  static constexpr int kPack = kReducePack<T>;
  const T* data;

  __device__ T load(std::int64_t i) const { return data[i]; }
  __device__ T value(T loaded, std::int64_t /*i*/) const { return loaded; }

  bool aligned() const { return is_aligned<T, kPack>(data); }
  __device__ void load_pack(std::int64_t pack, bool aligned, T (&to)[kPack]) const {
    const auto loaded = cuda::load_pack<kPack>(data, pack, aligned);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to[v] = loaded.values[v];
  }
};

template <class Source>
constexpr int pack_of() {
  if constexpr (requires { Source::kPack; }) {
    return Source::kPack;
  } else {
    return 1;
  }
}

/// A rule (combine.h) over a source's elements, which may be unfinished results; kLast: finishes.
template <class Rule, class Source, bool kLast>
struct Reduction {
  static constexpr int kPack = pack_of<Source>();
  using In = typename Source::In;
  using Acc = typename Rule::Acc;
  using Result = std::conditional_t<kLast, typename Rule::Out, Acc>;
  Rule rule;
  Source source;

  __device__ In load(std::int64_t i) const { return source.load(i); }
  __device__ Acc identity() const { return rule.identity(); }
  __device__ Acc add(Acc acc, In loaded, std::int64_t i) const { return rule.add(acc, source.value(loaded, i)); }
  // Adds neighbours, each to its own accumulator, or all of one result to the first if a rule has add_row(). Rules
  // whose accumulators share a starting value take it from the first accumulator: for one result (kFold), from one
  // element.
  template <bool kFold>
  __device__ void add_pack(Acc (&acc)[kPack], const In (&loaded)[kPack], std::int64_t pack, bool aligned,
                           bool first) const {
    using Value = decltype(source.value(loaded[0], std::int64_t{}));
    Value values[kPack];
    if constexpr (requires { source.values(loaded, pack, aligned, values); }) {
      source.values(loaded, pack, aligned, values);
    } else {
#pragma unroll
      for (int v = 0; v < kPack; ++v) values[v] = source.value(loaded[v], pack * kPack + v);
    }
    if constexpr (kFold && requires { rule.add_row(acc[0], values); }) {
      acc[0] = rule.add_row(acc[0], values);
    } else {
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        if constexpr (requires { rule.open(values[0]); }) {
          if (first) acc[v] = rule.open(values[kFold ? 0 : v]);
          acc[v] = rule.add_open(acc[v], values[v]);
        } else {
          acc[v] = rule.add(acc[v], values[v]);
        }
      }
    }
  }
  // Joins one thread's accumulators before close().
  __device__ Acc join(Acc a, Acc b) const {
    if constexpr (requires { rule.join(a, b); }) {
      return rule.join(a, b);
    } else {
      return rule.combine(a, b);
    }
  }
  __device__ Acc close(Acc acc) const {
    if constexpr (std::is_same_v<In, Acc>) {
      return acc;
    } else {
      return rule.close(acc);
    }
  }
  __device__ Acc combine(Acc a, Acc b) const { return rule.combine(a, b); }
  __device__ void store(Acc acc, Result* out, std::int64_t i) const {
    if constexpr (!kLast) {
      out[i] = acc;
    } else if constexpr (requires { rule.store(acc, out, i); }) {
      rule.store(acc, out, i);
    } else {
      out[i] = rule.finish(acc);
    }
  }
};

// Combines the values of each item's rows, kSums per thread, into those of its first row. `shared` has room for the
// values of all threads.
template <class Policy, class Acc, int kSums>
__device__ void combine_rows(const Policy& policy, Acc (&values)[kSums], Acc* shared, const ReducePlace& place,
                             const ReduceTiling& tiling) {
  const int thread = static_cast<int>(threadIdx.x);
  const int in_warp = tiling.columns == 1 ? 32 : 0;  // the number of neighbouring rows in one warp, if any
  int half = tiling.abreast / 2;
  if (half >= in_warp) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) shared[s * kReduceThreads + thread] = values[s];
    for (; half > 0 && half >= in_warp; half /= 2) {
      __syncthreads();
      if (!place.active || place.row >= half) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        const Acc* const other = shared + s * kReduceThreads + thread + half * tiling.columns;
        values[s] = policy.combine(values[s], *other);
        shared[s * kReduceThreads + thread] = values[s];
      }
    }
  }
  for (; half > 0; half /= 2) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) values[s] = policy.combine(values[s], shuffle_down(values[s], half));
  }
}

// (outer, extent, inner) -> out (outer, chunks, inner). Each item's result is independent of the others, so the grid's
// size changes nothing.
template <class Policy>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(Policy policy, typename Policy::Result* out, ReduceStage stage, ReduceTiling tiling) {
  using Acc = typename Policy::Acc;
  __shared__ __align__(16) unsigned char storage[kReduceThreads * sizeof(Acc)];
  Acc* const sums = reinterpret_cast<Acc*>(storage);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t step = std::int64_t{gridDim.x} * tiling.items_per_block;
  for (std::int64_t base = std::int64_t{blockIdx.x} * tiling.items_per_block; base < tiling.items; base += step) {
    const ReducePlace place = reduce_place(tiling, stage, base, thread);
    Acc acc[4] = {policy.identity(), policy.identity(), policy.identity(), policy.identity()};
    if (place.active) {
      const std::int64_t begin = place.chunk * stage.chunk_rows;
      const std::int64_t end = min(stage.extent, begin + stage.chunk_rows);
      const std::int64_t at = place.outer * stage.extent * stage.inner + place.column;
      std::int64_t row = begin + place.row;
      const std::int64_t stride = tiling.abreast;
      for (; row + 3 * stride < end; row += 4 * stride) {  // four loads in flight
        typename Policy::In loaded[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) loaded[k] = policy.load(at + (row + k * stride) * stage.inner);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const std::int64_t r = row + k * stride;
          acc[k] = policy.add(acc[k], loaded[k], at + r * stage.inner);
        }
      }
      for (; row < end; row += stride) {
        const std::int64_t i = at + row * stage.inner;
        acc[0] = policy.add(acc[0], policy.load(i), i);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) acc[k] = policy.close(acc[k]);
    }
    Acc total[1] = {policy.combine(policy.combine(acc[0], acc[1]), policy.combine(acc[2], acc[3]))};
    combine_rows(policy, total, sums, place, tiling);
    if (place.active && place.row == 0) {
      policy.store(total[0], out, (place.outer * stage.chunks + place.chunk) * stage.inner + place.column);
    }
    if (base + step < tiling.items) __syncthreads();
  }
}

// The same for packs of kPack neighbours: `stage` and `tiling` count packs in place of reduce_kernel's columns. kFold:
// each pack belongs to one result. The address determines if a pack is one load, and does not change the order.
template <class Policy, bool kFold>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_packs_kernel(Policy policy, typename Policy::Result* out, ReduceStage stage, ReduceTiling tiling,
                        bool aligned) {
  using Acc = typename Policy::Acc;
  using In = typename Policy::In;
  constexpr int V = Policy::kPack, kInFlight = V * sizeof(In) <= 16 ? 4 : 2;  // registers hold the loads in flight
  constexpr int kSums = kFold ? 1 : V;
  __shared__ __align__(16) unsigned char storage[kSums * kReduceThreads * sizeof(Acc)];
  Acc* const sums = reinterpret_cast<Acc*>(storage);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t step = std::int64_t{gridDim.x} * tiling.items_per_block;
  for (std::int64_t base = std::int64_t{blockIdx.x} * tiling.items_per_block; base < tiling.items; base += step) {
    const ReducePlace place = reduce_place(tiling, stage, base, thread);
    Acc acc[V];
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = policy.identity();
    if (place.active) {
      const std::int64_t begin = place.chunk * stage.chunk_rows;
      const std::int64_t end = min(stage.extent, begin + stage.chunk_rows);
      const std::int64_t at = place.outer * stage.extent * stage.inner + place.column;
      const std::int64_t stride = tiling.abreast, first = begin + place.row;
      std::int64_t row = first;
      for (; row + (kInFlight - 1) * stride < end; row += kInFlight * stride) {
        In loaded[kInFlight][V];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          policy.source.load_pack(at + (row + k * stride) * stage.inner, aligned, loaded[k]);
        }
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          policy.template add_pack<kFold>(acc, loaded[k], at + (row + k * stride) * stage.inner, aligned,
                                          k == 0 && row == first);
        }
      }
      for (; row < end; row += stride) {
        In loaded[V];
        policy.source.load_pack(at + row * stage.inner, aligned, loaded);
        policy.template add_pack<kFold>(acc, loaded, at + row * stage.inner, aligned, row == first);
      }
    }
    if constexpr (kFold) {
#pragma unroll
      for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
        for (int v = 0; v < half; ++v) acc[v] = policy.join(acc[v], acc[v + half]);
      }
    }
    const std::int64_t to = (place.outer * stage.chunks + place.chunk) * stage.inner + place.column;
    Acc totals[kSums];
#pragma unroll
    for (int v = 0; v < kSums; ++v) totals[v] = place.active ? policy.close(acc[v]) : acc[v];
    combine_rows(policy, totals, sums, place, tiling);
    if (place.active && place.row == 0) {
#pragma unroll
      for (int v = 0; v < kSums; ++v) policy.store(totals[v], out, to * kSums + v);
    }
    if (base + step < tiling.items) __syncthreads();
  }
}

// Returns false if the stage's shape does not consist of whole packs, or if packs would leave a GPU idle.
template <class Policy>
bool run_reduce_packs(const Policy& policy, typename Policy::Result* out, ReduceStage stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20, kLeastBlocks = 512, V = Policy::kPack;
  const bool fold = stage.inner == 1;
  if constexpr (requires { policy.source.has_packs(); }) {
    if (!policy.source.has_packs()) return false;
  }
  if (fold) {
    if (stage.extent % V != 0 || stage.chunk_rows % V != 0) return false;
    stage.extent /= V;
    stage.chunk_rows /= V;
  } else {
    if (stage.inner % V != 0) return false;
    stage.inner /= V;
  }
  ReduceTiling tiling = reduce_tiling(stage);
  if (!fold) {
    const ReduceTiling longer = reduce_tiling(stage, reduce_abreast(stage.extent, stage.inner, kLeastOfPacks));
    if (longer.blocks() >= kLeastBlocks) tiling = longer;
    if (tiling.blocks() < kLeastBlocks) return false;
  }
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  launch(fold ? reduce_packs_kernel<Policy, true> : reduce_packs_kernel<Policy, false>, geometry, device, policy, out,
         stage, tiling, policy.source.aligned());
  return true;
}

template <class Policy>
void run_reduce_stage(const Policy& policy, typename Policy::Result* out, const ReduceStage& stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  if constexpr (Policy::kPack > 1) {
    if (run_reduce_packs(policy, out, stage, device)) return;
  }
  const ReduceTiling tiling = reduce_tiling(stage);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  launch(reduce_kernel<Policy>, geometry, device, policy, out, stage, tiling);
}

/// All stages: from the source through Rule::Acc, the type of unfinished results, to Rule::Out. attr.from is not empty.
template <class Rule, class Source>
void run_reduce_stages(const Rule& rule, const Source& source, Tensor& out, const ReduceAttr& attr) {
  using Acc = typename Rule::Acc;
  using Unfinished = Elements<Acc>;
  const int device = out.device().index;
  auto* const result = static_cast<typename Rule::Out*>(out.raw_mutable_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  const auto chunk_rows = [](int pack, std::int64_t elements) {
    return [pack, elements](std::int64_t extent, std::int64_t inner) {
      return reduce_chunk_rows(extent, inner, pack, elements);
    };
  };
  // Axes of one element need no addition, but the dtype may change.
  if (!stages.next(stage, chunk_rows(pack_of<Source>(), attr.from.numel()))) {
    stage = {.outer = 1, .extent = 1, .inner = attr.from.numel()};
    return run_reduce_stage(Reduction<Rule, Source, true>{rule, source}, result, stage, device);
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, chunk_rows(pack_of<Unfinished>(), now.results()));
    const bool first = !unfinished.defined();
    const Unfinished before{first ? nullptr : static_cast<const Acc*>(unfinished.raw_data())};
    const auto bytes = now.results() * static_cast<std::int64_t>(sizeof(Acc));
    Tensor next = more ? make_tensor({Shape{bytes}, kUInt8}, out.device()) : Tensor{};
    auto* const partial = more ? static_cast<Acc*>(next.raw_mutable_data()) : nullptr;
    if (first && more) run_reduce_stage(Reduction<Rule, Source, false>{rule, source}, partial, now, device);
    if (first && !more) run_reduce_stage(Reduction<Rule, Source, true>{rule, source}, result, now, device);
    if (!first && more) run_reduce_stage(Reduction<Rule, Unfinished, false>{rule, before}, partial, now, device);
    if (!first && !more) run_reduce_stage(Reduction<Rule, Unfinished, true>{rule, before}, result, now, device);
    unfinished = next;
  }
}

}  // namespace adjoint::cuda
