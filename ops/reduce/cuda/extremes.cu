// The largest and the least, and their places, on CUDA.
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
  T* values;  // null where indices are all that is wanted
  reduce::Reorder<compute_t<T>> reorder;

  __device__ T load(std::int64_t i) const { return data[i]; }
  __device__ Acc identity() const { return {compute_t<T>{}, -1}; }
  __device__ Acc add(Acc acc, T value, std::int64_t /*i*/, std::int64_t row) const {
    return combine(acc, {reorder(convert<compute_t<T>>(value)), row});
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
  __device__ void store(Acc acc, std::int64_t* places, std::int64_t i) const {
    places[i] = acc.row;
    if (values != nullptr) values[i] = convert<T>(reorder.finish(acc.value));
  }
};

}  // namespace

void extreme(std::span<const Tensor> in, Tensor& out, const ExtremeAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, attr.least ? 1.0 : 0.0);  // of bool alone
  }
  visit(in[0].dtype(), [&]<class T>() {
    const auto into = [&]<class A, class Out>() {
      const reduce::Mapped<reduce::Max, A, Out, reduce::Reorder<A>> rule{{attr.least, attr.magnitude}};
      run_reduce_stages(rule, Elements<T>{in[0].data<T>()}, out, attr.reduce);
    };
    if (out.dtype() == kBool) return into.template operator()<bool, bool>();
    into.template operator()<compute_t<T>, T>();
  });
}

void place(std::span<const Tensor> in, std::span<Tensor> out, const PlaceAttr& attr) {
  const ReduceStage stage{.outer = attr.outer, .extent = attr.extent, .inner = attr.inner, .chunk_rows = attr.extent};
  auto* const places = out.back().mutable_data<std::int64_t>();
  visit(in[0].dtype(), [&]<class T>() {
    T* const values = out.size() == 2 ? out[0].mutable_data<T>() : nullptr;
    run_reduce_stage(FirstMax<T>{in[0].data<T>(), values, {attr.least, false}}, places, stage, out[0].device().index);
  });
}

}  // namespace adjoint::cuda
