// out[i] = f(in0[i], in1[i], ...) over tensors of one shape and any strides, for .cu files:
//
//   struct Add {
//     __device__ float operator()(float a, float b) const { return a + b; }
//   };
//   elementwise<float(float, float)>(Add{}, out, a, b);   // result's and operands' storage types
//
// Operands may be `out` itself. Contiguous operands move in 16-byte pieces where their addresses allow.
#pragma once

#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/divider.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/strided.h>
#include <adjoint/core/tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace adjoint::cuda {
namespace detail {

inline constexpr int kElementwiseThreads = 256;
// Blocks walk the elements in strides of the whole grid: enough of them to fill every multiprocessor twice over.
inline constexpr std::int64_t kBlocksPerMultiprocessor = 16;

inline LaunchGeometry elementwise_geometry(std::int64_t threads, int device) {
  const std::int64_t blocks = (threads + kElementwiseThreads - 1) / kElementwiseThreads;
  const std::int64_t most = kBlocksPerMultiprocessor * multiprocessor_count(device);
  return {dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kElementwiseThreads)};
}

template <class T, int V>
bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * V) == 0;
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_contiguous(F f, std::int64_t numel, Out* out, const In*... in) {
  const std::int64_t step = std::int64_t{gridDim.x} * kElementwiseThreads * V;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x) * V; i < numel; i += step) {
    if (i + V <= numel) {
      Pack<Out, V> result;
      const auto compute = [&](const auto&... packs) {
#pragma unroll
        for (int v = 0; v < V; ++v) result.values[v] = f(packs.values[v]...);
      };
      compute(*reinterpret_cast<const Pack<In, V>*>(in + i)...);
      *reinterpret_cast<Pack<Out, V>*>(out + i) = result;
    } else {
      for (std::int64_t j = i; j < numel; ++j) out[j] = f(in[j]...);
    }
  }
}

// Offsets of the i-th element in 32 bits, where they fit: divisions become multiplications.
template <std::size_t N>
struct NarrowLoops {
  using Index = std::uint32_t;

  explicit NarrowLoops(const StridedPlan<N>& plan) : rank(plan.rank) {
    for (int axis = 0; axis < rank; ++axis) {
      sizes[axis] = Divider(static_cast<std::uint32_t>(plan.sizes[axis]));
      for (std::size_t n = 0; n < N; ++n) strides[n][axis] = static_cast<std::int32_t>(plan.strides[n][axis]);
    }
  }
  static bool fits(const StridedPlan<N>& plan) {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    if (plan.numel > kLargest) return false;
    for (std::size_t n = 0; n < N; ++n) {
      std::int64_t reach = 0;
      for (int axis = 0; axis < plan.rank; ++axis) reach += (plan.sizes[axis] - 1) * std::abs(plan.strides[n][axis]);
      if (reach > kLargest) return false;
    }
    return true;
  }
  __device__ void locate(Index i, std::int64_t (&offsets)[N]) const {
    std::int32_t narrow[N] = {};
#pragma unroll
    for (int axis = 0; axis < static_cast<int>(kMaxRank); ++axis) {
      if (axis == rank) break;
      // The outermost axis needs no division: what is left is its position.
      const std::uint32_t quotient = axis + 1 == rank ? 0 : sizes[axis].divide(i);
      const auto position = static_cast<std::int32_t>(i - quotient * sizes[axis].divisor());
      i = quotient;
#pragma unroll
      for (std::size_t n = 0; n < N; ++n) narrow[n] += position * strides[n][axis];
    }
#pragma unroll
    for (std::size_t n = 0; n < N; ++n) offsets[n] = narrow[n];
  }

  int rank;
  Divider sizes[kMaxRank];
  std::int32_t strides[N][kMaxRank] = {};
};

template <std::size_t N>
struct WideLoops {
  using Index = std::int64_t;

  explicit WideLoops(const StridedPlan<N>& p) : plan(p) {}
  __device__ void locate(Index i, std::int64_t (&offsets)[N]) const {
#pragma unroll
    for (std::size_t n = 0; n < N; ++n) offsets[n] = 0;
    for (int axis = 0; axis < plan.rank; ++axis) {
      const std::int64_t quotient = axis + 1 == plan.rank ? 0 : i / plan.sizes[axis];
      const std::int64_t position = i - quotient * plan.sizes[axis];
      i = quotient;
#pragma unroll
      for (std::size_t n = 0; n < N; ++n) offsets[n] += position * plan.strides[n][axis];
    }
  }

  StridedPlan<N> plan;
};

template <std::size_t... I, class Loops, class F, class Out, class... In>
__device__ void compute_strided(std::index_sequence<I...>, const Loops& loops, const F& f, typename Loops::Index numel,
                                Out* out, const In*... in) {
  using Index = typename Loops::Index;
  const Index step = static_cast<Index>(gridDim.x) * kElementwiseThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kElementwiseThreads + threadIdx.x; i < numel; i += step) {
    std::int64_t offsets[1 + sizeof...(In)];
    loops.locate(i, offsets);
    out[offsets[0]] = f(in[offsets[1 + I]]...);
  }
}

template <class Loops, class F, class Out, class... In>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_strided(const __grid_constant__ Loops loops, F f, typename Loops::Index numel, Out* out,
                        const In*... in) {
  compute_strided(std::index_sequence_for<In...>{}, loops, f, numel, out, in...);
}

template <class Signature>
struct Elementwise;

template <class Out, class... In>
struct Elementwise<Out(In...)> {
  static constexpr std::size_t kOperands = 1 + sizeof...(In);
  // Elements that move at once: 16 bytes of the widest operand.
  static constexpr int kVector = static_cast<int>(16 / std::max({sizeof(Out), sizeof(In)...}));

  template <class F, class... Tensors>
  static void run(const F& f, Tensor& out, const Tensors&... in) {
    static_assert(sizeof...(Tensors) == sizeof...(In), "one tensor for each operand of the signature");
    if (out.numel() == 0) return;
    const StridedPlan<kOperands> plan = make_strided_plan<kOperands>(out.shape(), {out.strides(), in.strides()...});
    const int device = out.device().index;
    auto* out_data = static_cast<Out*>(out.raw_mutable_data());
    if (plan.contiguous() && is_aligned<Out, kVector>(out_data) && (is_aligned<In, kVector>(in.raw_data()) && ...)) {
      launch(elementwise_contiguous<kVector, F, Out, In...>,
             elementwise_geometry((plan.numel + kVector - 1) / kVector, device), device, f, plan.numel, out_data,
             static_cast<const In*>(in.raw_data())...);
    } else {
      run_strided(f, plan, device, out_data, static_cast<const In*>(in.raw_data())...);
    }
  }

 private:
  template <class F>
  static void run_strided(const F& f, const StridedPlan<kOperands>& plan, int device, Out* out, const In*... in) {
    const LaunchGeometry geometry = elementwise_geometry(plan.numel, device);
    using Narrow = NarrowLoops<kOperands>;
    using Wide = WideLoops<kOperands>;
    if (Narrow::fits(plan)) {
      launch(elementwise_strided<Narrow, F, Out, In...>, geometry, device, Narrow(plan), f,
             static_cast<std::uint32_t>(plan.numel), out, in...);
    } else {
      launch(elementwise_strided<Wide, F, Out, In...>, geometry, device, Wide(plan), f, plan.numel, out, in...);
    }
  }
};

template <class F, class Out>
__global__ void __launch_bounds__(kElementwiseThreads) generate_kernel(F f, std::int64_t numel, Out* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kElementwiseThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x; i < numel; i += step)
    out[i] = f(i);
}

}  // namespace detail

/// out[i] = f(in[i]...) for tensors of out's shape and device; Signature is Out(In...), the storage types.
template <class Signature, class F, class... Tensors>
void elementwise(const F& f, Tensor& out, const Tensors&... in) {
  detail::Elementwise<Signature>::run(f, out, in...);
}

/// out[i] = f(i) for a contiguous `out`.
template <class Out, class F>
void generate(const F& f, Tensor& out) {
  const int device = out.device().index;
  launch(detail::generate_kernel<F, Out>, detail::elementwise_geometry(out.numel(), device), device, f, out.numel(),
         static_cast<Out*>(out.raw_mutable_data()));
}

}  // namespace adjoint::cuda
