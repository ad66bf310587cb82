// Where the kernels for few channels a group are worth estimating beside those of tensor cores: a rule beside the
// estimates, for these were fitted to times of what the kernels took while the rule was theirs. Without it 20 choices
// of choices.tsv become theirs, for some of which candidates.tsv has no time of theirs. It goes when that table is
// measured anew, as bench_conv_candidates does for all that they take now, and the terms are fitted to it.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/channelwise/plan.h>

namespace adjoint::cuda {

/// Whether they may be faster than tensor-core kernels: than those whose steps do not gather.
ADJOINT_API bool channelwise_pays(const ChannelwisePlan& plan, Arithmetic arithmetic);

}  // namespace adjoint::cuda
