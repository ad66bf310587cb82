// Reductions on CUDA: one kernel, in which a policy says where elements come from and how they are combined. For .cu
// files.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/cuda/tiling.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>

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

template <class Op, class A, class Source, class Out>
struct Combine {
  using In = typename Source::In;
  using Acc = A;
  using Result = Out;
  Source source;
  double divisor;

  __device__ In load(std::int64_t i) const { return source.load(i); }
  __device__ Acc identity() const { return Op::template identity<A>(); }
  __device__ Acc element(In loaded, std::int64_t i, std::int64_t /*row*/) const {
    return convert<A>(source.value(loaded, i));
  }
  __device__ Acc combine(Acc a, Acc b) const { return Op::combine(a, b); }
  __device__ Out finish(Acc value) const { return reduce::finish<Out>(value, divisor); }
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
          acc[k] = policy.combine(acc[k], policy.element(loaded[k], at + r * stage.inner, r));
        }
      }
      for (; row < end; row += stride) {
        const std::int64_t i = at + row * stage.inner;
        acc[0] = policy.combine(acc[0], policy.element(policy.load(i), i, row));
      }
    }
    sums[thread] = policy.combine(policy.combine(acc[0], acc[1]), policy.combine(acc[2], acc[3]));
    for (int half = tiling.abreast / 2; half > 0; half /= 2) {
      __syncthreads();
      if (place.active && place.row < half) {
        sums[thread] = policy.combine(sums[thread], sums[thread + half * tiling.columns]);
      }
    }
    if (place.active && place.row == 0) {
      out[(place.outer * stage.chunks + place.chunk) * stage.inner + place.column] = policy.finish(sums[thread]);
    }
    __syncthreads();
  }
}

template <class Policy>
void run_reduce_stage(const Policy& policy, typename Policy::Result* out, const ReduceStage& stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  const ReduceTiling tiling = reduce_tiling(stage);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  launch(reduce_kernel<Policy>, geometry, device, policy, out, stage, tiling);
}

/// All stages: from the source through A, in which unfinished results are kept, to Out. attr.from has elements.
template <class Op, class A, class Out, class Source>
void run_reduce_stages(const Source& source, Tensor& out, const ReduceAttr& attr) {
  const int device = out.device().index;
  auto* const result = static_cast<Out*>(out.raw_mutable_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  // Axes of one element need no adding up, but the dtype may change.
  if (!stages.next(stage, reduce_chunk_rows)) {
    stage = {.outer = 1, .extent = 1, .inner = attr.from.numel()};
    return run_reduce_stage(Combine<Op, A, Source, Out>{source, attr.divisor}, result, stage, device);
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, reduce_chunk_rows);
    const bool first = !unfinished.defined();
    const Elements<A> before{first ? nullptr : unfinished.data<A>()};
    Tensor next = more ? make_tensor({Shape{now.results()}, dtype_of<A>}, out.device()) : Tensor{};
    A* const partial = more ? next.mutable_data<A>() : nullptr;
    if (first && more) run_reduce_stage(Combine<Op, A, Source, A>{source, 1.0}, partial, now, device);
    if (first && !more) run_reduce_stage(Combine<Op, A, Source, Out>{source, attr.divisor}, result, now, device);
    if (!first && more) run_reduce_stage(Combine<Op, A, Elements<A>, A>{before, 1.0}, partial, now, device);
    if (!first && !more) run_reduce_stage(Combine<Op, A, Elements<A>, Out>{before, attr.divisor}, result, now, device);
    unfinished = next;
  }
}

}  // namespace adjoint::cuda
