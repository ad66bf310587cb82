// Shared by the pipeline's planners: the places that a geometry's taps read, and the copy engine's view of tensors.
// Internal to this folder.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/pipeline/plan.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::cuda {

inline constexpr std::int64_t kMostExtent = std::numeric_limits<std::int32_t>::max() / 2;

/// A tap of one axis: at q of a phase of the result it reads q + shift of a phase of the source.
struct AxisTap {
  std::int64_t tap, result_phase, source_phase, shift;
};
std::vector<AxisTap> axis_taps(const PipelineGeometry& g, std::size_t axis);

/// The range that some taps of an axis reach.
struct Reach {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();

  bool is_empty() const { return first > last; }
  std::int64_t halo() const { return is_empty() ? 0 : last - first; }
  void add(std::int64_t shift);
};
/// The range of the taps that read a phase of the source.
Reach reach_of(const std::vector<AxisTap>& taps, std::int64_t source_phase);

/// A tensor's phase as one phase for each axis.
Extent3 phase_places(const PipelineTensor& tensor, std::int64_t phase);
/// True if the copy engine can address the tensor, and each of its phases has a position.
bool is_addressable(const PipelineTensor& tensor, std::int64_t element_bytes);
/// A phase of the tensor, channels innermost, swizzled; the caller sets the box.
TensorMapLayout pipeline_layout(const PipelineTensor& tensor, int phase, const void* data, DType dtype);

}  // namespace adjoint::cuda
