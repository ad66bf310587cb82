#include <adjoint/ops/conv/pipeline/parts.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <array>
#include <utility>

namespace adjoint::cuda {
namespace {

constexpr PipelineAxes kOnes{1, 1, 1, 1};

/// The places of a geometry's axes in the present order.
using AxisOrder = std::array<std::size_t, kPipelineAxes>;

PipelineGeometry reordered(const PipelineGeometry& g, const AxisOrder& order) {
  PipelineGeometry to = g;
  for (const auto values :
       {&PipelineGeometry::source, &PipelineGeometry::result, &PipelineGeometry::kernel, &PipelineGeometry::stride,
        &PipelineGeometry::padding, &PipelineGeometry::dilation, &PipelineGeometry::source_pitch,
        &PipelineGeometry::result_pitch, &PipelineGeometry::kernel_pitch}) {
    for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) (to.*values)[axis] = (g.*values)[order[axis]];
  }
  return to;
}

/// The tiles of the result, or of one of its phases.
std::int64_t tiles_of(const PipelineGeometry& g, const AxisOrder& order, const PipelineAxes& size) {
  std::int64_t tiles = 1;
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    const std::int64_t step = g.transposed ? g.stride[order[axis]] : 1;
    tiles *= ceil_div(ceil_div(g.result[order[axis]], step), size[axis]);
  }
  return tiles;
}

}  // namespace

PipelineTensor source_of(const PipelineGeometry& g) {
  return {g.source_channels, g.source, g.source_pitch, g.transposed ? kOnes : g.stride};
}

PipelineTensor result_of(const PipelineGeometry& g) {
  return {g.result_channels, g.result, g.result_pitch, g.transposed ? g.stride : kOnes};
}

std::vector<PipelineGeometry> axis_orders(const PipelineGeometry& g, const PipelineAxes& size) {
  std::vector<PipelineGeometry> orders{g};
  AxisOrder order{0, 1, 2, 3};
  const std::int64_t tiles = tiles_of(g, order, size);
  while (std::next_permutation(order.begin(), order.end())) {
    const bool repeats = size[0] == size[1] && order[0] > order[1];
    if (!repeats && tiles_of(g, order, size) < tiles) orders.push_back(reordered(g, order));
  }
  return orders;
}

std::vector<PlacedTap> placed_taps(const PipelineGeometry& g, std::size_t inner) {
  std::vector<PlacedTap> taps{{}};
  for (std::size_t nest = 0; nest < kPipelineAxes; ++nest) {
    constexpr std::size_t kLast = kPipelineAxes - 1;
    const std::size_t axis = nest == kLast ? inner : nest == inner ? kLast : nest;
    const std::int64_t stride = g.stride[axis];
    std::int64_t phases = 1;  // of the axes after this one, whose phases come closer together
    for (std::size_t other = axis + 1; other < kPipelineAxes; ++other) phases *= g.stride[other];
    std::vector<PlacedTap> longer;
    for (const PlacedTap& before : taps) {
      for (std::int64_t tap = 0; tap < g.kernel[axis]; ++tap) {
        const std::int64_t away = tap * g.dilation[axis] - g.padding[axis], phase = (away % stride + stride) % stride;
        PlacedTap& placed = longer.emplace_back(before);
        placed.filter += tap * g.kernel_pitch[axis];
        (g.transposed ? placed.result_phase : placed.source_phase) += phase * phases;
        placed.shift[axis] = (g.transposed ? phase - away : away - phase) / stride;
      }
    }
    taps = std::move(longer);
  }
  return taps;
}

void Reach::add(std::int64_t shift) {
  first = std::min(first, shift);
  last = std::max(last, shift);
}

PipelineAxes phase_places(const PipelineTensor& tensor, std::int64_t phase) {
  PipelineAxes places;
  for (std::size_t axis = kPipelineAxes; axis-- > 0; phase /= tensor.step[axis])
    places[axis] = phase % tensor.step[axis];
  return places;
}

PipelineAxes phase_extents(const PipelineTensor& tensor, std::int64_t phase) {
  PipelineAxes extents = phase_places(tensor, phase);
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    extents[axis] = ceil_div(tensor.extents[axis] - extents[axis], tensor.step[axis]);
  }
  return extents;
}

bool is_addressable(const PipelineTensor& tensor, std::int64_t element_bytes) {
  bool valid = tensor.channels >= 1 && tensor.channels * element_bytes % 16 == 0 && tensor.channels <= kMostExtent;
  for (std::size_t axis = 0; axis < kPipelineAxes; ++axis) {
    valid = valid && tensor.extents[axis] >= tensor.step[axis] && tensor.extents[axis] <= kMostExtent;
  }
  return valid && tensor.phases() <= kMostPipelinePhases;
}

TensorMapLayout pipeline_layout(const PipelineTensor& tensor, int phase, const void* data, DType dtype) {
  const PipelineAxes places = phase_places(tensor, phase), extents = phase_extents(tensor, phase);
  std::int64_t first = 0;
  TensorMapLayout layout{.data = nullptr, .dtype = dtype, .extents = {}, .strides = {}, .box = {}, .swizzled = true};
  layout.extents[0] = tensor.channels;
  layout.strides[0] = 1;
  for (int axis = kPipelineAxes - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    const int at = kPipelineAxes - axis;
    const std::int64_t pitch = tensor.channels * tensor.pitch[a];
    layout.extents[at] = extents[a];
    layout.strides[at] = pitch * tensor.step[a];
    first += pitch * places[a];
  }
  layout.data = static_cast<const unsigned char*>(data) + first * element_size(dtype);
  return layout;
}

}  // namespace adjoint::cuda
