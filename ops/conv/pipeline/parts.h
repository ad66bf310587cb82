// Shared by the pipeline's planners: the places that a geometry's taps read, and the copy engine's view of tensors.
// Internal to this folder.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/pipeline/plan.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::cuda {

inline constexpr std::int64_t kMostExtent = std::numeric_limits<std::int32_t>::max() / 2;

PipelineTensor source_of(const PipelineGeometry& g);
PipelineTensor result_of(const PipelineGeometry& g);

/// Other orders read memory in smaller pieces, which the models of time do not see: they must promise a tenth.
inline constexpr double kOtherOrderShare = 0.9;
inline bool is_in_memory_order(const PipelineTensor& tensor) {
  return std::is_sorted(tensor.pitch.rbegin(), tensor.pitch.rend());
}

/// A tap: at position q of a phase of the result it reads q + shift of a phase of the source.
struct PlacedTap {
  std::int64_t filter, result_phase, source_phase;  // its place in the filter; phases
  PipelineAxes shift;
};
/// The taps of all phases; those that differ only along the axis `inner` follow each other.
std::vector<PlacedTap> placed_taps(const PipelineGeometry& g, std::size_t inner = kPipelineAxes - 1);

/// The range that some taps reach along an axis.
struct Reach {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();

  std::int64_t halo() const { return last - first; }
  void add(std::int64_t shift);
};

/// The orders of a geometry's axes that are worth a plan with tiles of `size` positions on each axis: its own first,
/// and those that make fewer tiles of the result, or of each of its phases.
std::vector<PipelineGeometry> axis_orders(const PipelineGeometry& g, const PipelineAxes& size);

/// A tensor's phase as one phase for each axis.
PipelineAxes phase_places(const PipelineTensor& tensor, std::int64_t phase);
/// A phase's length on each axis.
PipelineAxes phase_extents(const PipelineTensor& tensor, std::int64_t phase);
/// True if the copy engine can address the tensor, and each of its phases has a position.
bool is_addressable(const PipelineTensor& tensor, std::int64_t element_bytes);
/// A phase of the tensor, channels innermost, swizzled; the caller sets the box.
TensorMapLayout pipeline_layout(const PipelineTensor& tensor, int phase, const void* data, DType dtype);

}  // namespace adjoint::cuda
