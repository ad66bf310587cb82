// The largest and the least elements, and their places, on CUDA.
#include <adjoint/core/cuda/backend.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/core/cuda/rows.cuh>
#include <adjoint/ops/reduce/cuda/reduce.cuh>

namespace adjoint::cuda {
namespace {

// A number and its place among all elements; -1: none yet.
template <class A>
struct Placed {
  A value;
  std::int64_t at;
};

template <class T>
struct PlacedElements : Elements<T> {
  reduce::Reorder<compute_t<T>> reorder;

  __device__ Placed<compute_t<T>> value(T loaded, std::int64_t i) const {
    return {reorder(convert<compute_t<T>>(loaded)), i};
  }
};

// The first of the largest, or the first NaN. Elements are added in their order.
template <class T>
struct FirstMax {
  using A = compute_t<T>;
  using Acc = Placed<A>;
  using Out = std::int64_t;
  T* values;  // null if only places are needed
  reduce::Reorder<A> reorder;
  RowSplit by_inner, by_extent;

  __device__ Acc identity() const { return {reduce::Max::identity<A>(), -1}; }
  __device__ Acc add(Acc acc, Acc x) const { return exceeds(x, acc) || acc.at < 0 ? x : acc; }
  __device__ Acc open(Acc x) const { return x; }
  __device__ Acc add_open(Acc acc, Acc x) const { return exceeds(x, acc) ? x : acc; }
  // For neighbours: a few bits distinguish their places until the largest is known.
  template <int V>
  __device__ Acc add_row(Acc acc, const Acc (&x)[V]) const {
    A value = x[0].value;
    int at = 0;
#pragma unroll
    for (int v = 1; v < V; ++v) {
      const bool more = exceeds(x[v], {value, at});
      value = more ? x[v].value : value;
      at = more ? v : at;
    }
    return add(acc, {value, x[0].at + at});
  }
  __device__ Acc close(Acc acc) const { return acc; }
  // By selection, because branches would diverge in a warp. A place of -1 is behind all others.
  __device__ Acc combine(Acc a, Acc b) const {
    const bool same = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value));
    const bool before = static_cast<std::uint64_t>(b.at) < static_cast<std::uint64_t>(a.at);
    return exceeds(b, a) | (same & before) ? b : a;
  }
  __device__ void store(Acc acc, std::int64_t* places, std::int64_t i) const {
    std::int64_t column = acc.at, row = by_inner(column);
    by_extent(row);
    places[i] = row;
    if (values != nullptr) values[i] = convert<T>(reorder.finish(acc.value));
  }

 private:
  static __device__ bool exceeds(Acc x, Acc y) { return !(x.value <= y.value) & (y.value == y.value); }
};

}  // namespace

void extreme(std::span<const Tensor> in, Tensor& out, const ExtremeAttr& attr) {
  if (in[0].numel() == 0) {
    out.raw_mutable_data();
    return fill(out, attr.least ? 1.0 : 0.0);  // for bool only
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
  const ReduceAttr along{Shape{attr.outer, attr.extent, attr.inner}, 0b010, false, 1.0};
  visit(in[0].dtype(), [&]<class T>() {
    T* const values = out.size() == 2 ? out[0].mutable_data<T>() : nullptr;
    const reduce::Reorder<compute_t<T>> reorder{attr.least, false};
    const std::int64_t count = in[0].numel();
    const FirstMax<T> rule{values, reorder, RowSplit(attr.inner, count), RowSplit(attr.extent, count)};
    run_reduce_stages(rule, PlacedElements<T>{{in[0].data<T>()}, reorder}, out.back(), along);
  });
}

}  // namespace adjoint::cuda
