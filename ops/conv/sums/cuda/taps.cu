#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>
#include <adjoint/ops/conv/sums/cuda/taps.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

template <class T, class From>
void gather(const TapGather& g, const void* from, void* to, int device) {
  constexpr int kVector = 16 / sizeof(From);
  const bool writes_vectors = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  launch_early(g.vector == 1 ? tapwise::gather_taps_kernel<T, From, 1> : tapwise::gather_taps_kernel<T, From, kVector>,
               {dim3(static_cast<unsigned>(ceil_div(g.count, std::int64_t{g.run}))), dim3(kGatherThreads)}, 1, device,
               g, static_cast<const From*>(from), static_cast<T*>(to), writes_vectors);
}

template <class T>
void gather_of(const TapGather& g, const void* from, void* to, int device) {
  g.of_sums ? gather<T, float>(g, from, to, device) : gather<T, T>(g, from, to, device);
}

}  // namespace

void gather_taps(const TapGather& g, DType dtype, const void* from, void* to, int device) {
  switch (dtype) {
    case kBFloat16: return gather_of<FloatElement<kBFloat16>>(g, from, to, device);
    case kFloat16: return gather_of<FloatElement<kFloat16>>(g, from, to, device);
    default: return gather_of<float>(g, from, to, device);
  }
}

}  // namespace adjoint::cuda
