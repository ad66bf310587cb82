// The schedule of conv_weight tap by tap: for each tap a product of matrices (plan.h) over positions and samples.
// Samples follow positions in copies of both operands (layouts/samples_last.h), where a tap moves the image by whole
// positions, so the copy engine can copy blocks of both for every tap. Results are separate for each tap; another
// kernel puts taps last, and adds slices up. For small planes and large batches, where kernels that read rows of
// positions find few of them.
//
//     filter[f][c][tap] = sum over positions q, samples n of feature[f][q][n] * image[c][q * stride + tap][n]
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/samples_last.h>
#include <adjoint/ops/conv/product/plan.h>
#include <adjoint/ops/conv/sums/taps.h>

#include <cstdint>

namespace adjoint::cuda {

struct TapwisePlan {
  SamplesLast image, feature;
  ProductPlan product;
  TapGather gather;

  /// Bytes of copies and results.
  std::int64_t copy_bytes(const SamplesLast& copy) const { return product.element_bytes * copy.numel(); }
  std::int64_t result_bytes() const {
    const ProductMatrix& result = product.result;
    return product.slices > 1 ? product.partial_bytes() : result.lines * result.width * product.element_bytes;
  }
};

/// For halves, or floats that are rounded to tf32. False if a row of positions and samples is not whole blocks of the
/// depth, for groups, 1 x 1 taps, a stride with a dilation or with planes of one row, more than kMostProductTaps, and
/// very large extents.
ADJOINT_API bool plan_tapwise(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine,
                              TapwisePlan& plan);

/// The time of the plan's kernels, copies included, in clocks of a multiprocessor.
ADJOINT_API double tapwise_clocks(const TapwisePlan& plan, const Machine& machine);

}  // namespace adjoint::cuda
