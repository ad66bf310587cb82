// Sums, maxima and their places on CUDA: one kernel, in which a policy says what is combined.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/reduce/combine.h>
#include <adjoint/ops/reduce/cuda/tiling.h>
#include <adjoint/ops/reduce/kernels.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

template <class Op, class A, class T, class Out>
struct Combine {
  using In = T;
  using Acc = A;
  using Result = Out;
  double divisor;

  __device__ Acc identity() const { return Op::template identity<A>(); }
  __device__ Acc element(T value, std::int64_t /*row*/) const { return convert<A>(value); }
  __device__ Acc combine(Acc a, Acc b) const { return Op::combine(a, b); }
  __device__ Out finish(Acc value) const { return reduce::finish<Out>(value, divisor); }
};

// The first of the largest, or the first NaN.
template <class T>
struct FirstMax {
  using In = T;
  struct Acc {
    compute_t<T> value;
    std::int64_t row;  // -1: nothing yet
  };
  using Result = std::int64_t;

  __device__ Acc identity() const { return {compute_t<T>{}, -1}; }
  __device__ Acc element(T value, std::int64_t row) const { return {convert<compute_t<T>>(value), row}; }
  __device__ Acc combine(Acc a, Acc b) const {
    if (b.row < 0) return a;
    if (a.row < 0) return b;
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a_nan || b_nan) return a_nan && (!b_nan || a.row < b.row) ? a : b;
    if (a.value != b.value) return a.value > b.value ? a : b;
    return a.row < b.row ? a : b;
  }
  __device__ std::int64_t finish(Acc value) const { return value.row; }
};

// data (outer, extent, inner) -> out (outer, chunks, inner). Each item's result is its own: the grid's size changes
// nothing.
template <class Policy>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(Policy policy, const typename Policy::In* data, typename Policy::Result* out, ReduceStage stage,
                  ReduceTiling tiling) {
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
      const auto* const at = data + place.outer * stage.extent * stage.inner + place.column;
      std::int64_t row = begin + place.row;
      const std::int64_t stride = tiling.abreast;
      for (; row + 3 * stride < end; row += 4 * stride) {  // four loads in flight
        typename Policy::In loaded[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) loaded[k] = at[(row + k * stride) * stage.inner];
#pragma unroll
        for (int k = 0; k < 4; ++k) acc[k] = policy.combine(acc[k], policy.element(loaded[k], row + k * stride));
      }
      for (; row < end; row += stride) acc[0] = policy.combine(acc[0], policy.element(at[row * stage.inner], row));
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
void run_stage(const Policy& policy, const typename Policy::In* in, typename Policy::Result* out,
               const ReduceStage& stage, int device) {
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  const ReduceTiling tiling = reduce_tiling(stage);
  const LaunchGeometry geometry{dim3(static_cast<unsigned>(std::min(tiling.blocks(), kMaxBlocks))),
                                dim3(kReduceThreads)};
  launch(reduce_kernel<Policy>, geometry, device, policy, in, out, stage, tiling);
}

// All stages: from T through A, in which unfinished results are kept, to Out.
template <class Op, class T, class A, class Out>
void run_stages(const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  const int device = out.device().index;
  auto* const result = static_cast<Out*>(out.raw_mutable_data());
  const auto* const data = static_cast<const T*>(in.raw_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage stage;
  // Axes of one element need no adding up, but the dtype may change.
  if (!stages.next(stage, reduce_chunk_rows)) {
    stage = {.outer = 1, .extent = 1, .inner = in.numel()};
    return run_stage(Combine<Op, A, T, Out>{attr.divisor}, data, result, stage, device);
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    const ReduceStage now = stage;
    more = stages.next(stage, reduce_chunk_rows);
    const bool first = !unfinished.defined();
    const A* const before = first ? nullptr : unfinished.data<A>();
    Tensor next = more ? make_tensor({Shape{now.results()}, dtype_of<A>}, out.device()) : Tensor{};
    A* const partial = more ? next.mutable_data<A>() : nullptr;
    if (first && more) run_stage(Combine<Op, A, T, A>{1.0}, data, partial, now, device);
    if (first && !more) run_stage(Combine<Op, A, T, Out>{attr.divisor}, data, result, now, device);
    if (!first && more) run_stage(Combine<Op, A, A, A>{1.0}, before, partial, now, device);
    if (!first && !more) run_stage(Combine<Op, A, A, Out>{attr.divisor}, before, result, now, device);
    unfinished = next;
  }
}

}  // namespace

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / attr.divisor);  // a mean of nothing is NaN
  }
  visit(in[0].dtype(), [&]<class T>() {
    using A = reduce::sum_t<T>;
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    run_stages<reduce::Sum, T, A, Out>(in[0], out, attr);
  });
}

void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() { run_stages<reduce::Max, T, compute_t<T>, T>(in[0], out, attr); });
}

void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr) {
  ReduceStage stage{.outer = attr.outer, .extent = attr.extent, .inner = attr.inner, .chunk_rows = attr.extent};
  auto* const result = out.mutable_data<std::int64_t>();
  visit(in[0].dtype(),
        [&]<class T>() { run_stage(FirstMax<T>{}, in[0].data<T>(), result, stage, out.device().index); });
}

}  // namespace adjoint::cuda
