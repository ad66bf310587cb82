#include <adjoint/ops/conv/correlation/store_boxes.h>

namespace adjoint::cuda {

bool correlation_stores_boxes(const CorrelationPlan& p, const void* out) {
  constexpr std::int32_t kMostPhases = 8, kLeastBytes = 512;  // a box costs the copy engine as much as some 500 bytes
  if (reinterpret_cast<std::uintptr_t>(out) % 16 != 0 || p.out_w % 2 != 0) return false;
  if (correlation_shifts_boxes(p) && (p.out_h != 1 || p.out_stride_w != 1 || p.n_channels % 2 != 0)) return false;
  if (p.flat() || p.phases_per_class != 1 || p.out_h % p.out_stride_h != 0) return false;
  if (correlation_log2_interleave(p.out_stride_w) < 0 || p.out_stride_w > kMostPhases) return false;
  const CorrelationBoxes boxes = correlation_boxes(p);
  const std::int32_t width = correlation_box_width(p, boxes);
  if (width % 4 != 0 || boxes.line / width > 1 << p.log2_tile_h) return false;
  if (boxes.box_bytes() < kLeastBytes) return false;
  if (correlation_shifts_boxes(p) && width < 32) return false;
  return p.groups == 1 || p.n_channels % (boxes.channels * boxes.parities) == 0;
}

TensorMapLayout correlation_store_layout(const CorrelationPlan& p, const void* out, bool odd) {
  const CorrelationBoxes boxes = correlation_boxes(p);
  const std::int32_t width = correlation_box_width(p, boxes);
  const std::int64_t channels = std::int64_t{p.groups} * p.n_channels, plane = std::int64_t{p.out_h} * p.out_w;
  const std::int32_t shift = odd ? kBoxShift : 0, parities = boxes.parities;
  const std::int32_t length = p.out_w + shift;  // without the rest beyond a multiple of 16 bytes
  // Steps along axes of extent one must be multiples of 16 bytes, too.
  const std::int64_t row = std::int64_t{p.out_w} * parities;
  return {.data = static_cast<const float*>(out) + (odd ? plane - shift : 0),
          .dtype = kFloat32,
          .extents = {length - length % 4, p.out_stride_h, p.out_h / p.out_stride_h, channels / parities, p.batch},
          .strides = {1, row, row * p.out_stride_h, plane * parities, plane * channels},
          .box = {width - 2 * shift, 1, boxes.line / width, boxes.channels, 1},
          .swizzled = width > 4};
}

}  // namespace adjoint::cuda
