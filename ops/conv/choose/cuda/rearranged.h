// Kernels that put operands into another order, in which they have whichever kernel computes what is left: the only
// ones that choose another. Each order is a kernel of its own, so that the lists compare them as they compare all
// others.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <cstdint>

namespace adjoint::cuda {

/// Those of layouts/orders.h. In the last three `boxes` computes conv_weight, of rows that suit the copy engine, and
/// writes the filter in the caller's order.
enum class Order : std::uint8_t {
  kUnshuffled,  // strides as channels
  kPadded,      // rows of conv's image
  kPaddedBoxes,
  kUnshuffledBoxes,  // and padded
  kBatchColumnsBoxes,
};

extern const ConvKernel unshuffled_conv, padded_conv;
extern const ConvKernel unshuffled_conv_transpose;
extern const ConvKernel unshuffled_conv_weight, padded_boxes_conv_weight, unshuffled_boxes_conv_weight,
    batch_columns_boxes_conv_weight;

/// The copies, and the estimate of what computes what is left.
template <Order kOrder>
Terms rearranged_terms(const ConvProblem& problem);
/// The least that those can be, before anything is planned of what computes what is left.
template <Order kOrder>
Terms rearranged_least_terms(const ConvProblem& problem);

}  // namespace adjoint::cuda
