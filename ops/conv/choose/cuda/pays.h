// Whether a kernel is faster than those after it in its role's list, for a problem that it takes.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/orders.h>

namespace adjoint::cuda {

bool narrow_pays(const ConvProblem& problem);
bool packed_pays(const ConvProblem& problem);
bool col2im_pays(const ConvProblem& problem);
bool sliced_pays(const ConvProblem& problem);
bool blocked_pays(const ConvProblem& problem);
bool boxes_pay(const ConvProblem& problem);
bool product_pays(const ConvProblem& problem);
bool plain_pays(const ConvProblem& problem);
bool few_results_pay(const ConvProblem& problem);
bool few_weight_pays(const ConvProblem& problem);
bool rearranged_pays(const ConvProblem& problem);  // rearranged.cpp
bool channelwise_pays(const ConvProblem& problem);
bool channelwise_weight_pays(const ConvProblem& problem);
bool tapwise_pays(const ConvProblem& problem);
bool blocked_weight_pays(const ConvProblem& problem);

/// The order of conv_weight's operands that is the quickest, as models tell; kept.
const WeightOrderChoice& quickest_weight_order(const ConvProblem& problem);

/// Whether conv_weight is large enough for copies of its operands, and not one for ordinary cores.
bool weight_copies_may_pay(const ConvProblem& problem);

}  // namespace adjoint::cuda
