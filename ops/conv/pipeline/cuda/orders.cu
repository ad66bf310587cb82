#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/pipeline/cuda/order_filter.cuh>
#include <adjoint/ops/conv/pipeline/cuda/pad_channels.cuh>
#include <adjoint/ops/conv/pipeline/cuda/unfold_channels.cuh>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

template <class Unit>
void order(const pipeline::FilterOrder& how, const void* from, void* to, int device) {
  const auto smem_bytes = static_cast<std::size_t>(how.smem_bytes(sizeof(Unit)));
  launch_early(how.reads_vectors(from, sizeof(Unit)) ? pipeline::order_filter_kernel<Unit, pipeline::kOrderVector>
                                                     : pipeline::order_filter_kernel<Unit, 1>,
               {dim3(static_cast<unsigned>(how.blocks())), dim3(pipeline::kOrderThreads), smem_bytes}, 1, device, how,
               static_cast<const Unit*>(from), static_cast<Unit*>(to));
}

template <class Unit>
void copy(bool pads, std::int64_t rows, std::int64_t channels, const void* from, void* to, int device) {
  const auto kernel = pads ? pipeline::pad_channels_kernel<Unit> : pipeline::crop_channels_kernel<Unit>;
  const std::int64_t vectors = ceil_div(channels, static_cast<std::int64_t>(16 / sizeof(Unit)));
  const auto blocks = static_cast<unsigned>(ceil_div(rows * vectors, std::int64_t{pipeline::kPadThreads}));
  launch_early(kernel, {dim3(blocks), dim3(pipeline::kPadThreads)}, 1, device, rows, static_cast<int>(channels),
               static_cast<int>(vectors), static_cast<const Unit*>(from), static_cast<Unit*>(to));
}

void copy_rows(bool pads, std::int64_t rows, std::int64_t channels, std::int32_t element_bytes, const void* from,
               void* to, int device) {
  element_bytes == 2 ? copy<std::uint16_t>(pads, rows, channels, from, to, device)
                     : copy<std::uint32_t>(pads, rows, channels, from, to, device);
}

template <class Unit>
void unfold(const ConvGeometry& g, bool taps_are_inner, const void* from, void* to, int device) {
  const pipeline::Unfold how = pipeline::unfold_of(g, taps_are_inner, 16 / sizeof(Unit));
  const auto blocks = static_cast<unsigned>(ceil_div(how.threads(), pipeline::kUnfoldThreads));
  launch_early(pipeline::unfold_channels_kernel<Unit>, {dim3(blocks), dim3(pipeline::kUnfoldThreads)}, 1, device, how,
               static_cast<const Unit*>(from), static_cast<Unit*>(to));
}

}  // namespace

void order_pipeline_filter(const ConvGeometry& g, bool transposed, bool is_channels_last, std::int32_t element_bytes,
                           const void* from, void* to, int device) {
  const pipeline::FilterOrder how =
      pipeline::filter_order(g.feature_channels, g.image_channels, static_cast<std::int32_t>(g.taps()), transposed,
                             is_channels_last, 16 / element_bytes);
  element_bytes == 2 ? order<std::uint16_t>(how, from, to, device) : order<std::uint32_t>(how, from, to, device);
}

void pad_channels(std::int64_t rows, std::int64_t channels, std::int32_t element_bytes, const void* from, void* to,
                  int device) {
  copy_rows(true, rows, channels, element_bytes, from, to, device);
}

void crop_channels(std::int64_t rows, std::int64_t channels, std::int32_t element_bytes, const void* from, void* to,
                   int device) {
  copy_rows(false, rows, channels, element_bytes, from, to, device);
}

void unfold_channels(const ConvGeometry& g, bool taps_are_inner, std::int32_t element_bytes, const void* from, void* to,
                     int device) {
  element_bytes == 2 ? unfold<std::uint16_t>(g, taps_are_inner, from, to, device)
                     : unfold<std::uint32_t>(g, taps_are_inner, from, to, device);
}

}  // namespace adjoint::cuda
