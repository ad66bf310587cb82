#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>
#include <adjoint/ops/conv/sums/cuda/channels.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

template <class T>
void gather_channels_of(const TapGather& g, std::int64_t channels, const void* from, void* to, int device) {
  constexpr std::int64_t kBlock = kGatherThreads * pipeline_weight::kChannelVector;
  const dim3 grid(static_cast<unsigned>(ceil_div(g.count, kBlock)), g.taps.divisor());
  launch_early(pipeline_weight::gather_channels_kernel<T>, {grid, dim3(kGatherThreads)}, 1, device, g,
               Divider(static_cast<std::uint32_t>(channels)), static_cast<const float*>(from), static_cast<T*>(to));
}

}  // namespace

void gather_channels(const TapGather& g, std::int64_t channels, DType dtype, const void* from, void* to, int device) {
  switch (dtype) {
    case kBFloat16: return gather_channels_of<FloatElement<kBFloat16>>(g, channels, from, to, device);
    case kFloat16: return gather_channels_of<FloatElement<kFloat16>>(g, channels, from, to, device);
    default: return gather_channels_of<float>(g, channels, from, to, device);
  }
}

}  // namespace adjoint::cuda
