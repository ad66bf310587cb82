// Reductions on CUDA: one kernel, in which a policy says where elements come from and how they are combined. For .cu
// files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/cuda/tiling.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>
#include <type_traits>

namespace adjoint::cuda {

/// Elements as they lie in memory. A source may compute instead: load(i) reads what element i needs, and value(that, i)
/// makes it. Each element is asked for once.
template <class T>
struct Elements {
  using In = T;
  const T* data;

  __device__ T load(std::int64_t i) const { return data[i]; }
  __device__ T value(T loaded, std::int64_t /*i*/) const { return loaded; }
};

/// How many neighbours of a source a thread reads at once: 16 bytes, where elements are numbers in memory.
template <class Source>
inline constexpr int kReducePack = 1;
template <class T>
inline constexpr int kReducePack<Elements<T>> = std::is_arithmetic_v<T> || is_reduced_float<T>
                                                    ? static_cast<int>(sizeof(T) == 1 ? 8 : 16 / sizeof(T))
                                                    : 1;

/// A rule (combine.h) over a source's elements, which may be unfinished results already; kLast: finishes.
template <class Rule, class Source, bool kLast>
struct Reduction {
  static constexpr int kPack = kReducePack<Source>;
  using In = typename Source::In;
  using Acc = typename Rule::Acc;
  using Result = std::conditional_t<kLast, typename Rule::Out, Acc>;
  Rule rule;
  Source source;

  __device__ In load(std::int64_t i) const { return source.load(i); }
  __device__ Acc identity() const { return rule.identity(); }
  __device__ Acc add(Acc acc, In loaded, std::int64_t i, std::int64_t /*row*/) const {
    return rule.add(acc, source.value(loaded, i));
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
    if constexpr (kLast) {
      out[i] = rule.finish(acc);
    } else {
      out[i] = acc;
    }
  }
};

// (outer, extent, inner) -> out (outer, chunks, inner). Each item's result is its own: the grid's size changes
// nothing.
template <class Policy>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(Policy policy, typename Policy::Result* out, ReduceStage stage, ReduceTiling tiling) {
  using Acc = typename Policy::Acc;
  __shared__ alignas(16) unsigned char storage[kReduceThreads * sizeof(Acc)];
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
          acc[k] = policy.add(acc[k], loaded[k], at + r * stage.inner, r);
        }
      }
      for (; row < end; row += stride) {
        const std::int64_t i = at + row * stage.inner;
        acc[0] = policy.add(acc[0], policy.load(i), i, row);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) acc[k] = policy.close(acc[k]);
    }
    sums[thread] = policy.combine(policy.combine(acc[0], acc[1]), policy.combine(acc[2], acc[3]));
    for (int half = tiling.abreast / 2; half > 0; half /= 2) {
      __syncthreads();
      if (place.active && place.row < half) {
        sums[thread] = policy.combine(sums[thread], sums[thread + half * tiling.columns]);
      }
    }
    if (place.active && place.row == 0) {
      policy.store(sums[thread], out, (place.outer * stage.chunks + place.chunk) * stage.inner + place.column);
    }
    __syncthreads();
  }
}

// The same, of packs of V neighbours: `stage` and `tiling` count packs where reduce_kernel's count columns. kFold: each
// pack belongs to one result. Whether a pack is one load is the address's affair, and changes no order.
template <class Policy, int V, bool kFold>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_packs_kernel(Policy policy, typename Policy::Result* out, ReduceStage stage, ReduceTiling tiling,
                        bool aligned) {
  using Acc = typename Policy::Acc;
  using In = typename Policy::In;
  constexpr int kInFlight = 4;
  __shared__ alignas(16) unsigned char storage[kReduceThreads * sizeof(Acc)];
  Acc* const sums = reinterpret_cast<Acc*>(storage);
  const int thread = static_cast<int>(threadIdx.x);
  const auto load = [&](std::int64_t pack) {
    const In* from = policy.source.data + pack * V;
    if (aligned) return *reinterpret_cast<const Pack<In, V>*>(from);
    Pack<In, V> loaded;
#pragma unroll
    for (int v = 0; v < V; ++v) loaded.values[v] = from[v];
    return loaded;
  };
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
      const std::int64_t stride = tiling.abreast;
      const auto add = [&](const Pack<In, V>& pack) {
#pragma unroll
        for (int v = 0; v < V; ++v) acc[v] = policy.add(acc[v], pack.values[v], 0, 0);
      };
      std::int64_t row = begin + place.row;
      for (; row + (kInFlight - 1) * stride < end; row += kInFlight * stride) {
        Pack<In, V> loaded[kInFlight];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) loaded[k] = load(at + (row + k * stride) * stage.inner);
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) add(loaded[k]);
      }
      for (; row < end; row += stride) add(load(at + row * stage.inner));
#pragma unroll
      for (int v = 0; v < V; ++v) acc[v] = policy.close(acc[v]);
    }
    if constexpr (kFold) {
#pragma unroll
      for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
        for (int v = 0; v < half; ++v) acc[v] = policy.combine(acc[v], acc[v + half]);
      }
    }
    const std::int64_t first = (place.outer * stage.chunks + place.chunk) * stage.inner + place.column;
#pragma unroll
    for (int v = 0; v < (kFold ? 1 : V); ++v) {
      sums[thread] = acc[v];
      for (int half = tiling.abreast / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.active && place.row < half) {
          sums[thread] = policy.combine(sums[thread], sums[thread + half * tiling.columns]);
        }
      }
      if (place.active && place.row == 0) policy.store(sums[thread], out, kFold ? first : first * V + v);
      __syncthreads();
    }
  }
}

// False where the stage's shape is not of whole packs, or where packs would leave a GPU idle.
template <class Policy, int V>
bool run_reduce_packs(const Policy& policy, typename Policy::Result* out, ReduceStage stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20, kLeastBlocks = 512;
  const bool fold = stage.inner == 1;
  if (fold) {
    if (stage.extent % V != 0 || stage.chunk_rows % V != 0) return false;
    stage.extent /= V;
    stage.chunk_rows /= V;
  } else {
    if (stage.inner % V != 0) return false;
    stage.inner /= V;
  }
  const ReduceTiling tiling = reduce_tiling(stage);
  if (!fold && tiling.blocks() < kLeastBlocks) return false;
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  const bool aligned = reinterpret_cast<std::uintptr_t>(policy.source.data) % (sizeof(typename Policy::In) * V) == 0;
  launch(fold ? reduce_packs_kernel<Policy, V, true> : reduce_packs_kernel<Policy, V, false>, geometry, device, policy,
         out, stage, tiling, aligned);
  return true;
}

template <class Policy>
void run_reduce_stage(const Policy& policy, typename Policy::Result* out, const ReduceStage& stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  if constexpr (requires { Policy::kPack; }) {
    if constexpr (Policy::kPack > 1) {
      if (run_reduce_packs<Policy, Policy::kPack>(policy, out, stage, device)) return;
    }
  }
  const ReduceTiling tiling = reduce_tiling(stage);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  launch(reduce_kernel<Policy>, geometry, device, policy, out, stage, tiling);
}

/// All stages: from the source through Rule::Acc, in which unfinished results are kept, to Rule::Out. attr.from has
/// elements.
template <class Rule, class Source>
void run_reduce_stages(const Rule& rule, const Source& source, Tensor& out, const ReduceAttr& attr) {
  using Acc = typename Rule::Acc;
  using Unfinished = Elements<Acc>;
  const int device = out.device().index;
  auto* const result = static_cast<typename Rule::Out*>(out.raw_mutable_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  // Axes of one element need no adding up, but the dtype may change.
  if (!stages.next(stage, reduce_chunk_rows)) {
    stage = {.outer = 1, .extent = 1, .inner = attr.from.numel()};
    return run_reduce_stage(Reduction<Rule, Source, true>{rule, source}, result, stage, device);
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, reduce_chunk_rows);
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
