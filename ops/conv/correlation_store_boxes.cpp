#include <adjoint/ops/conv/correlation_store_boxes.h>

namespace adjoint::cuda {

bool correlation_stores_boxes(const CorrelationPlan& p, const void* out) {
  constexpr std::int32_t kMostPhases = 8, kLeastBytes = 512;  // a box costs the copy engine as much as some 500 bytes
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 16 == 0 && p.out_w % 4 == 0;
  if (!aligned || p.phases_per_class != 1 || p.out_h % p.out_stride_h != 0) return false;
  if (correlation_log2_interleave(p.out_stride_w) < 0 || p.out_stride_w > kMostPhases) return false;
  const CorrelationBoxes boxes = correlation_boxes(p);
  const std::int32_t width = correlation_box_width(p, boxes);
  if (width % 4 != 0 || boxes.line / width > 1 << p.log2_tile_h) return false;
  if (boxes.box_bytes() < kLeastBytes) return false;
  return p.groups == 1 || p.n_channels % boxes.channels == 0;
}

TensorMapLayout correlation_store_layout(const CorrelationPlan& p, const void* out) {
  const CorrelationBoxes boxes = correlation_boxes(p);
  const std::int32_t width = correlation_box_width(p, boxes);
  const std::int64_t channels = std::int64_t{p.groups} * p.n_channels, plane = std::int64_t{p.out_h} * p.out_w;
  return {.data = out,
          .dtype = kFloat32,
          .extents = {p.out_w, p.out_stride_h, p.out_h / p.out_stride_h, channels, p.batch},
          .strides = {1, p.out_w, std::int64_t{p.out_stride_h} * p.out_w, plane, plane * channels},
          .box = {width, 1, boxes.line / width, boxes.channels, 1},
          .swizzled = width > 4};
}

}  // namespace adjoint::cuda
