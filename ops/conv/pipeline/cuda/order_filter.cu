#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/pipeline/cuda/order_filter.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

template <class Unit>
void order(const pipeline::FilterOrder& how, const void* from, void* to, int device) {
  const auto smem_bytes = static_cast<std::size_t>(how.smem_bytes(sizeof(Unit)));
  launch_early(pipeline::order_filter_kernel<Unit>,
               {dim3(static_cast<unsigned>(how.blocks())), dim3(pipeline::kOrderThreads), smem_bytes}, 1, device, how,
               static_cast<const Unit*>(from), static_cast<Unit*>(to));
}

}  // namespace

void order_pipeline_filter(const ConvGeometry& g, bool transposed, std::int32_t element_bytes, const void* from,
                           void* to, int device) {
  const pipeline::FilterOrder how =
      pipeline::filter_order(g.feature_channels, g.image_channels, static_cast<std::int32_t>(g.taps()), transposed,
                             element_bytes);
  element_bytes == 2 ? order<std::uint16_t>(how, from, to, device) : order<std::uint32_t>(how, from, to, device);
}

}  // namespace adjoint::cuda
