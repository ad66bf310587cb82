// Kernels that reorder operands and let another kernel compute the inner problem: the only kernels that choose another.
// Each order is a separate kernel, so the lists compare them like all others.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <cstdint>

namespace adjoint::cuda {

/// The orders of layouts/orders.h. In the last three `boxes` computes conv_weight, of rows that suit the copy engine,
/// and writes the filter in the caller's order.
enum class Order : std::uint8_t {
  kUnshuffled,  // strides as channels
  kPadded,      // rows of conv's image
  kPaddedBoxes,
  kUnshuffledBoxes,  // strides as channels, and padded
  kBatchColumnsBoxes,
};

extern const ConvKernel unshuffled_conv, padded_conv;
extern const ConvKernel unshuffled_conv_transpose;
extern const ConvKernel unshuffled_conv_weight, padded_boxes_conv_weight, unshuffled_boxes_conv_weight,
    batch_columns_boxes_conv_weight;

/// The copies, and the estimate of the inner problem.
template <Order kOrder>
Terms rearranged_terms(const ConvProblem& problem);
/// A lower bound of those, before the inner problem is planned.
template <Order kOrder>
Terms rearranged_least_terms(const ConvProblem& problem);

}  // namespace adjoint::cuda
