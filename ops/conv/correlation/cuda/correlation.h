// conv and conv_transpose on Hopper's tensor cores: float32 (three tf32 products), TF32, bfloat16, float16.
//
// Zeros that replace values outside the input, or taps that a phase lacks, are multiplied. Infinity or NaN in the input
// therefore reaches every output that it reaches in the plain kernels, and also outputs less than one stride from them,
// of the same sample and group; in the filter, it reaches only outputs of the same channel.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/correlation/plan.h>
#include <adjoint/ops/conv/correlation/store_boxes.h>
#include <adjoint/ops/elementwise/activate.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace adjoint::cuda {

extern const ConvKernel correlation_conv;
extern const ConvKernel correlation_conv_transpose;

struct CorrelationOperands {
  const void* x;
  const void* filter_blocks;
  const void* bias;  // null for no bias
  void* out;
  std::int32_t load_bytes;    // bytes of x that one copy takes: correlation_load_bytes()
  std::int32_t store_vector;  // elements of any row of out that one access can write
  Activate<float> activate = {};
  void* linear = nullptr;  // receives sum and bias without activation, laid out like out; null if not needed
  bool partial = false;    // results are float32 for every dtype of x, for slices of sums
  // True if the copy engine brings the input (correlation_loads_boxes()), and if it writes results
  // (correlation_stores_boxes()); by these maps.
  bool loads_boxes = false, stores_boxes = false;
  std::uint32_t zero = 0;    // kernels do not know that it is 0, so expressions with it wait for values
  bool stores_sums = false;  // results are stored straight from registers: correlation_stores_sums()
  TensorMap in_map = {};
  TensorMap out_maps[2] = {}, linear_maps[2] = {};  // the second is for shifted boxes
};

/// Returns true if the copy engine may bring a plan's boxes of an input.
inline bool correlation_loads_boxes(const CorrelationPlan& plan, const void* x) {
  return plan.boxed != 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
}

/// The least width of tiles whose results may be stored straight from registers: boxes were faster for narrower ones
/// (bench/lab/LOG.md).
inline constexpr std::int32_t kFewestColumnsFromRegisters = 64;

/// Returns true if float32 results are stored straight from registers: sums without activation, to rows of whole
/// sectors, if that is faster (rows of four or eight phases, which need many boxes, and steps that gather), or partial
/// results, which are read again: memory checkers do not see the copy engine's writes.
inline bool correlation_stores_sums(const CorrelationPlan& plan, const CorrelationOperands& operands) {
  constexpr std::int64_t kSectorBytes = 32;
  constexpr std::int32_t kMostPhases = 8, kManyPhases = 4;
  if (plan.tile_columns < kFewestColumnsFromRegisters || !operands.activate.is_none() || operands.linear != nullptr)
    return false;
  if (!rows_aligned(operands.out, plan.out_w * std::int64_t{sizeof(float)}, kSectorBytes)) return false;
  const std::int32_t phases = plan.out_stride_w;
  if (plan.phases_per_class != 1 || phases > kMostPhases || correlation_log2_interleave(phases) < 0) return false;
  return operands.partial || plan.gathers || phases >= kManyPhases;
}

/// Sets how operands of float32 are loaded and stored, as the plan and their addresses allow, and how inputs in pairs
/// of columns, which begin at multiples of 16 bytes, are loaded; calls `encode(layout)` to make the copy engine's maps.
template <class Encode>
void set_correlation_ways(const CorrelationPlan& plan, bool split, const Encode& encode,
                          CorrelationOperands& operands) {
  if (plan.tiles() == 0) return;  // the driver refuses empty maps
  operands.loads_boxes = correlation_loads_boxes(plan, operands.x);
  if (operands.loads_boxes) operands.in_map = encode(correlation_input_layout(plan, operands.x, split));
  if (plan.unit_columns == 2) return;
  operands.stores_sums = correlation_stores_sums(plan, operands);
  const auto leaves = [&](const void* out) { return out == nullptr || correlation_stores_boxes(plan, out); };
  operands.stores_boxes = !operands.stores_sums && !operands.partial && leaves(operands.out) && leaves(operands.linear);
  if (!operands.stores_boxes) return;
  for (const bool odd : {false, true}) {
    if (odd && !correlation_shifts_boxes(plan)) break;
    operands.out_maps[odd] = encode(correlation_store_layout(plan, operands.out, odd));
    if (operands.linear != nullptr)
      operands.linear_maps[odd] = encode(correlation_store_layout(plan, operands.linear, odd));
  }
}

/// CorrelationOperands::store_vector of a problem.
inline std::int32_t correlation_store_vector(const CorrelationPlan& plan, const ConvProblem& problem,
                                             std::int64_t element_size) {
  // A flat plan's rows may end within vectors of positions.
  const std::int64_t width = plan.flat() ? std::gcd(plan.out_w, plan.flat_w * plan.out_stride_w) : plan.out_w;
  const std::int32_t vector = row_vector(problem.out, width, element_size);
  return problem.linear == nullptr ? vector : std::min(vector, row_vector(problem.linear, width, element_size));
}

/// Returns true if the results in staging rows are written pixel by pixel: rows of so many phases, or of several rows
/// of phases in a tile, are not staged as vectors. `vector`: CorrelationOperands::store_vector.
ADJOINT_HD inline bool correlation_stores_pixels(const CorrelationPlan& plan, std::int32_t vector,
                                                 std::int32_t element_size) {
  if (plan.phases_per_class > 1) return true;
  const bool wide = vector * element_size == 16, four_or_eight = plan.out_stride_w == 4 || plan.out_stride_w == 8;
  return plan.out_stride_w > 2 && !(wide && four_or_eight);
}

/// The problem's plan, or null if no plan fits; and its operands without the packed filter, with float32 results if
/// they are partial. An input in pairs of columns begins at a multiple of 16 bytes.
const CorrelationPlan* find_correlation_plan(const ConvProblem& problem);
CorrelationOperands correlation_operands(const CorrelationPlan& plan, const ConvProblem& problem, bool partial = false);

/// Enqueues the packing of a filter into `plan.filter_units()` units.
template <Arithmetic kArithmetic>
void pack_correlation_filter(const CorrelationPlan& plan, const void* filter, void* blocks, int device);

/// Packs the problem's filter, then computes, on the device's current stream. One translation unit each.
template <Arithmetic kArithmetic>
void run_correlation(const CorrelationPlan& plan, const CorrelationOperands& operands, const ConvProblem& problem);
/// The same for a problem with any start of its input; with float32 results if they are partial.
void run_correlation(const CorrelationPlan& plan, const ConvProblem& problem, bool partial = false);

}  // namespace adjoint::cuda
