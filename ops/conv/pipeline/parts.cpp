#include <adjoint/ops/conv/pipeline/parts.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>

namespace adjoint::cuda {
namespace {

/// A phase's length and start on each axis of a tensor.
Extent3 phase_extents(const PipelineTensor& tensor, const Extent3& places) {
  Extent3 extents;
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    extents[axis] = ceil_div(tensor.extents[axis] - places[axis], tensor.step[axis]);
  }
  return extents;
}

}  // namespace

std::vector<AxisTap> axis_taps(const PipelineGeometry& g, std::size_t axis) {
  std::vector<AxisTap> taps;
  const std::int64_t stride = g.stride[axis];
  for (std::int64_t tap = 0; tap < g.kernel[axis]; ++tap) {
    const std::int64_t away = tap * g.dilation[axis] - g.padding[axis];
    if (!g.transposed) {
      const std::int64_t phase = (away % stride + stride) % stride;
      taps.push_back({tap, 0, phase, (away - phase) / stride});
      continue;
    }
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      if ((phase - away) % stride == 0) taps.push_back({tap, phase, 0, (phase - away) / stride});
    }
  }
  return taps;
}

void Reach::add(std::int64_t shift) {
  first = std::min(first, shift);
  last = std::max(last, shift);
}

Reach reach_of(const std::vector<AxisTap>& taps, std::int64_t source_phase) {
  Reach reach;
  for (const AxisTap& tap : taps) {
    if (tap.source_phase == source_phase) reach.add(tap.shift);
  }
  return reach;
}

Extent3 phase_places(const PipelineTensor& tensor, std::int64_t phase) {
  return {phase / (tensor.step[1] * tensor.step[2]), phase / tensor.step[2] % tensor.step[1], phase % tensor.step[2]};
}

bool is_addressable(const PipelineTensor& tensor, std::int64_t element_bytes) {
  bool valid = tensor.batch >= 1 && tensor.channels >= 1 && tensor.channels * element_bytes % 16 == 0 &&
               tensor.batch <= kMostExtent && tensor.channels <= kMostExtent;
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    valid = valid && tensor.extents[axis] >= tensor.step[axis] && tensor.extents[axis] <= kMostExtent;
  }
  return valid && tensor.phases() <= kMostPipelinePhases;
}

TensorMapLayout pipeline_layout(const PipelineTensor& tensor, int phase, const void* data, DType dtype) {
  const Extent3 places = phase_places(tensor, phase), extents = phase_extents(tensor, places);
  std::int64_t pitch = tensor.channels, first = 0;
  TensorMapLayout layout{.data = nullptr, .dtype = dtype, .extents = {}, .strides = {}, .box = {}, .swizzled = true};
  layout.extents[0] = tensor.channels;
  layout.strides[0] = 1;
  for (int axis = kPipelineAxes - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    const int at = kPipelineAxes - axis;
    layout.extents[at] = extents[a];
    layout.strides[at] = pitch * tensor.step[a];
    first += pitch * places[a];
    pitch *= tensor.extents[a];
  }
  layout.extents[kPipelineAxes + 1] = tensor.batch;
  layout.strides[kPipelineAxes + 1] = pitch;
  layout.data = static_cast<const unsigned char*>(data) + first * element_size(dtype);
  return layout;
}

}  // namespace adjoint::cuda
