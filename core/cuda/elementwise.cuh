// out[i] = f(in0[i], in1[i], ...) over tensors of one shape and any strides, for .cu files:
//
//   struct Add {
//     __device__ float operator()(float a, float b) const { return a + b; }
//   };
//   elementwise<float(float, float)>(Add{}, out, a, b);   // result's and operands' storage types
//
// Operands may be `out` itself. Operands whose innermost axes run through memory forwards, backwards or with stride 0
// move in 16-byte pieces if their addresses allow.
#pragma once

#include <adjoint/core/base/divider.h>
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/cuda/pack.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/core/tensor/tensor.h>

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
// Blocks walk the elements in strides of the whole grid: enough blocks to fill every multiprocessor twice.
inline constexpr std::int64_t kBlocksPerMultiprocessor = 16;

inline LaunchGeometry elementwise_geometry(std::int64_t threads, int device) {
  const std::int64_t blocks = (threads + kElementwiseThreads - 1) / kElementwiseThreads;
  const std::int64_t most = kBlocksPerMultiprocessor * multiprocessor_count(device);
  return {dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kElementwiseThreads)};
}

// One block for each piece of the work: the hardware hands out blocks faster than a loop over the grid iterates.
inline LaunchGeometry covering_geometry(std::int64_t threads) {
  const std::int64_t blocks = (threads + kElementwiseThreads - 1) / kElementwiseThreads;
  return {dim3(static_cast<unsigned>(blocks)), dim3(kElementwiseThreads)};
}

// The number of a thread's loads in flight before the first is used: 8 elements, or 16 bytes of the 16-bit types.
template <int V>
inline constexpr int kPacksAThread = V < 8 ? 2 : 1;
inline constexpr int kItemsAThread = 4;  // if elements move one by one

// f of the packs' elements. The caller loads all arguments before f is called at all.
template <class Out, int kPacks, int V, class F, class... Packs>
__device__ void compute_packs(const F& f, Pack<Out, V> (&results)[kPacks], const Packs&... in) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < V; ++v) results[p].values[v] = f(in.packs[p].values[v]...);
  }
}

template <class T, int kPacks, int V>
struct Loaded {
  Pack<T, V> packs[kPacks];
};

// Neighbouring threads have neighbouring packs. `count`: elements from `in` on; there may be fewer than packs hold.
template <int kPacks, int V, class T>
__device__ Loaded<T, kPacks, V> load_contiguous(const T* in, std::int64_t count) {
  Loaded<T, kPacks, V> loaded{};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t begin = std::int64_t{p} * kElementwiseThreads * V;
    if (begin + V <= count) {
      loaded.packs[p] = *reinterpret_cast<const Pack<T, V>*>(in + begin);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (begin + v < count) loaded.packs[p].values[v] = in[begin + v];
      }
    }
  }
  return loaded;
}

// `whole`: `out` is aligned to packs.
template <class T, int V>
__device__ void store_contiguous(const Pack<T, V>& pack, T* out, std::int64_t count, bool whole = true) {
  if (whole && V <= count) {
    *reinterpret_cast<Pack<T, V>*>(out) = pack;
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (v < count) out[v] = pack.values[v];
    }
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_contiguous(F f, std::int64_t numel, Out* out, const In*... in) {
  constexpr int kPacks = kPacksAThread<V>;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kElementwiseThreads * kPacks + threadIdx.x) * V;
  Pack<Out, V> results[kPacks];
  compute_packs(f, results, load_contiguous<kPacks, V>(in + first, numel - first)...);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t begin = first + std::int64_t{p} * kElementwiseThreads * V;
    store_contiguous(results[p], out + begin, numel - begin);
  }
}

// Offsets of the i-th element in 32 bits, where divisions become multiplications.
template <std::size_t N>
struct StridedLoops {
  explicit StridedLoops(const StridedPlan<N>& plan) : rank(plan.rank) {
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
  __device__ void locate(std::uint32_t i, std::int64_t (&offsets)[N]) const {
    std::int32_t narrow[N] = {};
#pragma unroll
    for (int axis = 0; axis < static_cast<int>(kMaxRank); ++axis) {
      if (axis == rank) break;
      // The outermost axis needs no division: the remainder is its position.
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

// Packs of V elements along the innermost axis, if each operand's elements there are neighbours, in either direction,
// or one and the same.
template <std::size_t N>
struct Steps {
  int of[N];  // the step between elements: 1, 0 or -1
};
template <std::size_t N>
struct PackedPlan {
  StridedPlan<N> packs;  // the innermost axis counts packs
  Steps<N> steps;
};

template <int V, std::size_t N>
bool packs_rows(const StridedPlan<N>& plan, const std::array<std::pair<const void*, std::size_t>, N>& operands,
                PackedPlan<N>* packed) {
  if (plan.strides[0][0] != 1 || plan.sizes[0] % V != 0) return false;
  packed->packs = plan;
  packed->packs.numel /= V;
  packed->packs.sizes[0] /= V;
  for (std::size_t n = 0; n < N; ++n) {
    const std::int64_t step = plan.strides[n][0];
    if (step < -1 || step > 1) return false;
    packed->steps.of[n] = static_cast<int>(step);
    packed->packs.strides[n][0] = step * V;
    if (step == 0) continue;
    const auto [data, size] = operands[n];
    const std::size_t behind = step < 0 ? V - 1 : 0;  // elements of the first pack before the first of the row
    if ((reinterpret_cast<std::uintptr_t>(data) - behind * size) % (size * V) != 0) return false;
    for (int axis = 1; axis < plan.rank; ++axis) {
      if (plan.strides[n][axis] % V != 0) return false;
    }
  }
  return true;
}

template <int V, class T>
__device__ Pack<T, V> load_pack(const T* in, int step) {
  Pack<T, V> pack;
  if (step == 1) {
    pack = *reinterpret_cast<const Pack<T, V>*>(in);
  } else if (step == 0) {
    const T value = *in;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.values[v] = value;
  } else {
    const Pack<T, V> backwards = *reinterpret_cast<const Pack<T, V>*>(in - (V - 1));
#pragma unroll
    for (int v = 0; v < V; ++v) pack.values[v] = backwards.values[V - 1 - v];
  }
  return pack;
}

template <int V, int kPacks, class T, std::size_t N>
__device__ Loaded<T, kPacks, V> load_packs(const T* in, const std::int64_t (&offsets)[kPacks][N], std::size_t n,
                                           int step) {
  Loaded<T, kPacks, V> loaded;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if constexpr (V == 1) {
      loaded.packs[p].values[0] = in[offsets[p][n]];
    } else {
      loaded.packs[p] = load_pack<V>(in + offsets[p][n], step);
    }
  }
  return loaded;
}

// `count` packs of V elements, or single elements of any strides if V is 1.
template <int V, int kPacks, std::size_t... I, std::size_t N, class F, class Out, class... In>
__device__ void compute_strided(std::index_sequence<I...>, const StridedLoops<N>& loops, const Steps<N>& steps,
                                const F& f, std::uint32_t count, Out* out, const In*... in) {
  const std::uint32_t first = blockIdx.x * (kElementwiseThreads * kPacks) + threadIdx.x;
  std::int64_t offsets[kPacks][1 + sizeof...(In)];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    // Past the end the last one is loaded again, and not stored.
    const std::uint32_t i = first + p * kElementwiseThreads;
    loops.locate(i < count ? i : count - 1, offsets[p]);
  }
  Pack<Out, V> results[kPacks];
  compute_packs(f, results, load_packs<V>(in, offsets, 1 + I, steps.of[1 + I])...);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (first + p * kElementwiseThreads < count) {
      *reinterpret_cast<Pack<Out, V>*>(out + offsets[p][0]) = results[p];
    }
  }
}

template <int V, int kPacks, class F, class Out, class... In>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_strided(const __grid_constant__ StridedLoops<1 + sizeof...(In)> loops,
                        const __grid_constant__ Steps<1 + sizeof...(In)> steps, F f, std::uint32_t count, Out* out,
                        const In*... in) {
  compute_strided<V, kPacks>(std::index_sequence_for<In...>{}, loops, steps, f, count, out, in...);
}

template <class Signature>
struct Elementwise;

template <class Out, class... In>
struct Elementwise<Out(In...)> {
  static constexpr std::size_t kOperands = 1 + sizeof...(In);
  // Elements that move together: 16 bytes of the widest operand.
  static constexpr int kVector = static_cast<int>(16 / std::max({sizeof(Out), sizeof(In)...}));

  template <class F, class... Tensors>
  static void run(const F& f, Tensor& out, const Tensors&... in) {
    static_assert(sizeof...(Tensors) == sizeof...(In), "one tensor for each operand of the signature");
    if (out.numel() == 0) return;
    const StridedPlan<kOperands> plan = make_strided_plan<kOperands>(out.shape(), {out.strides(), in.strides()...});
    const int device = out.device().index;
    auto* out_data = static_cast<Out*>(out.raw_mutable_data());
    if (plan.contiguous() && are_aligned(out_data, in.raw_data()...)) {
      run_packs<kVector>(f, plan.numel, device, out_data, static_cast<const In*>(in.raw_data())...);
    } else {
      run_strided(f, plan, device, out_data, static_cast<const In*>(in.raw_data())...);
    }
  }

  template <class F, class... Tensors>
  static void run_contiguous(const F& f, Tensor& out, const Tensors&... in) {
    static_assert(sizeof...(Tensors) == sizeof...(In), "one tensor for each operand of the signature");
    if (out.numel() == 0) return;
    auto* out_data = static_cast<Out*>(out.raw_mutable_data());
    const auto run = are_aligned(out_data, in.raw_data()...) ? run_packs<kVector, F> : run_packs<1, F>;
    run(f, out.numel(), out.device().index, out_data, static_cast<const In*>(in.raw_data())...);
  }

 private:
  template <class... Data>
  static bool are_aligned(const void* out, const Data*... in) {
    return is_aligned<Out, kVector>(out) && (is_aligned<In, kVector>(in) && ...);
  }

  template <int V, class F>
  static void run_packs(const F& f, std::int64_t numel, int device, Out* out, const In*... in) {
    constexpr int kElements = V * kPacksAThread<V>;
    launch(elementwise_contiguous<V, F, Out, In...>, covering_geometry((numel + kElements - 1) / kElements), device, f,
           numel, out, in...);
  }

  // Functions of one operand, except copies, seldom see rows that are not the whole tensor. They have no kernel of
  // packs for such rows, which would be a quarter of the compiled code.
  template <class F>
  static constexpr bool kPacksRows = sizeof...(In) > 1 ||
                                     (requires { F::kCopies; } && (std::is_same_v<Out, In> && ...));

  template <class F>
  static void run_strided(const F& f, const StridedPlan<kOperands>& plan, int device, Out* out, const In*... in) {
    if (!StridedLoops<kOperands>::fits(plan)) {
      return run_halves(std::index_sequence_for<In...>{}, f, plan, device, out, in...);
    }
    if constexpr (kPacksRows<F>) {
      PackedPlan<kOperands> packed;
      if (packs_rows<kVector>(plan, {{{out, sizeof(Out)}, {in, sizeof(In)}...}}, &packed)) {
        return launch_strided<kVector, kPacksAThread<kVector>>(f, packed.packs, packed.steps, device, out, in...);
      }
    }
    launch_strided<1, kItemsAThread>(f, plan, {}, device, out, in...);
  }

  // Cuts the longest axis in two, because kernels count in 32 bits.
  template <std::size_t... I, class F>
  static void run_halves(std::index_sequence<I...>, const F& f, const StridedPlan<kOperands>& plan, int device,
                         Out* out, const In*... in) {
    const auto axis = std::max_element(plan.sizes, plan.sizes + plan.rank) - plan.sizes;
    const std::int64_t size = plan.sizes[axis], first = size / 2;
    for (const std::int64_t begin : {std::int64_t{0}, first}) {
      StridedPlan<kOperands> half = plan;
      half.sizes[axis] = begin == 0 ? first : size - first;
      half.numel = plan.numel / size * half.sizes[axis];
      run_strided(f, half, device, out + begin * plan.strides[0][axis], in + begin * plan.strides[1 + I][axis]...);
    }
  }

  template <int V, int kPacks, class F>
  static void launch_strided(const F& f, const StridedPlan<kOperands>& plan, const Steps<kOperands>& steps, int device,
                             Out* out, const In*... in) {
    launch(elementwise_strided<V, kPacks, F, Out, In...>, covering_geometry((plan.numel + kPacks - 1) / kPacks), device,
           StridedLoops<kOperands>(plan), steps, f, static_cast<std::uint32_t>(plan.numel), out, in...);
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

/// The same for tensors that are all contiguous, at any addresses: it omits the kernels for strides, which take long to
/// compile.
template <class Signature, class F, class... Tensors>
void elementwise_contiguous(const F& f, Tensor& out, const Tensors&... in) {
  detail::Elementwise<Signature>::run_contiguous(f, out, in...);
}

/// out[i] = f(i) for a contiguous `out`.
template <class Out, class F>
void generate(const F& f, Tensor& out) {
  const int device = out.device().index;
  launch(detail::generate_kernel<F, Out>, detail::elementwise_geometry(out.numel(), device), device, f, out.numel(),
         static_cast<Out*>(out.raw_mutable_data()));
}

}  // namespace adjoint::cuda
