// Sums, maxima and their places on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

namespace adjoint::cuda {
namespace {

// The first of the largest, or the first NaN.
template <class T>
struct FirstMax {
  using In = T;
  struct Acc {
    compute_t<T> value;
    std::int64_t row;  // -1: nothing yet
  };
  using Result = std::int64_t;
  const T* data;

  __device__ T load(std::int64_t i) const { return data[i]; }
  __device__ Acc identity() const { return {compute_t<T>{}, -1}; }
  __device__ Acc add(Acc acc, T value, std::int64_t /*i*/, std::int64_t row) const {
    return combine(acc, {convert<compute_t<T>>(value), row});
  }
  __device__ Acc close(Acc acc) const { return acc; }
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

}  // namespace

void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, 0.0 / attr.divisor);  // a mean of nothing is NaN
  }
  visit(in[0].dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    const reduce::Total<reduce::Sum, reduce::sum_t<T>, Out> total{attr.divisor};
    run_reduce_stages(total, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

void reduce_max(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr) {
  visit(in[0].dtype(), [&]<class T>() {
    run_reduce_stages(reduce::Total<reduce::Max, compute_t<T>, T>{}, Elements<T>{in[0].data<T>()}, out, attr);
  });
}

void argmax(std::span<const Tensor> in, Tensor& out, const ArgmaxAttr& attr) {
  ReduceStage stage{.outer = attr.outer, .extent = attr.extent, .inner = attr.inner, .chunk_rows = attr.extent};
  auto* const result = out.mutable_data<std::int64_t>();
  visit(in[0].dtype(),
        [&]<class T>() { run_reduce_stage(FirstMax<T>{in[0].data<T>()}, result, stage, out.device().index); });
}

}  // namespace adjoint::cuda
