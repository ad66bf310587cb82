#include <adjoint/ops/conv/choose/cuda/pays.h>

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/choose/weight_pays.h>
#include <adjoint/ops/conv/correlation/clocks.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/correlation/slices.h>
#include <adjoint/ops/conv/few_results/cuda/few_results.h>
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>
#include <adjoint/ops/conv/plain/plan.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/cuda/tapwise.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace adjoint::cuda {
namespace {

/// What models of copies say, kept: they take as long as planning.
struct Verdict {
  bool pays;
};

/// Clocks of the quicker of `blocked` and `correlation`, as their models tell, of a multiprocessor; infinity where
/// neither has a plan.
double wgmma_clocks(const ConvProblem& problem) {
  double clocks = std::numeric_limits<double>::infinity();
  for (const CorrelationPlan* plan : {find_correlation_plan(problem), find_blocked_plan(problem)}) {
    if (plan != nullptr) clocks = std::min(clocks, correlation_clocks(*plan, is_split(problem)));
  }
  return clocks;
}

/// Of the clocks that `blocked` or `correlation` take, the share below which this kernel is quicker, by the measured
/// times of some thirty layers beside what the models say.
double quicker_share(const PackedPlan& plan, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kTF32 || arithmetic == Arithmetic::kFloat32) return 0.9;
  const bool row = plan.h.source == 1 && plan.w.phases <= 2;
  return row ? 1.3 : 1.1;
}

}  // namespace

bool narrow_pays(const ConvProblem& problem) {
  const NarrowPlan& plan = *find_narrow_plan(problem);
  const int unit = unit_elements(arithmetic_of(problem));
  if (!narrow_pays(plan, arithmetic_of(problem))) return false;
  // The plans of what wgmma runs know better what tensor cores take.
  constexpr double kMargin = .95;
  return !runs_wgmma(problem.device) || narrow_clocks(plan, unit) < kMargin * kMultiprocessors * wgmma_clocks(problem);
}

/// Where rows do not begin at multiples of 16 bytes they are read element by element, which costs more than it saves.
/// The rows' length decides, not where the tensor begins: an address must not choose the bits.
bool packed_pays(const ConvProblem& problem) {
  const PackedPlan& plan = *find_packed_plan(problem);
  if (plan.w.source % plan.vector != 0) return false;
  const double clocks = packed_clocks(plan);
  const bool by_lines = packed_pays(plan);
  const bool by_plans = clocks < quicker_share(plan, arithmetic_of(problem)) * kMultiprocessors * wgmma_clocks(problem);
  // Of halves one model sees layers that the other does not; of floats each takes some for quicker that are not.
  const bool half = element_size(problem.dtype) == 2;
  if (half ? !(by_lines || by_plans) : !(by_lines && by_plans)) return false;
  const NarrowPlan* narrow = find_narrow_plan(problem);
  return narrow == nullptr || clocks < narrow_clocks(*narrow, plan.unit_channels);
}

bool col2im_pays(const ConvProblem& problem) {
  const Col2imPlan& plan = *find_col2im_plan(problem);
  // The rows' length decides, not where the tensor begins: an address must not choose the bits.
  if (plan.w.source % plan.vector != 0) return false;
  const double clocks = col2im_clocks(plan);
  const PackedPlan* packed = find_packed_plan(problem);
  if (packed != nullptr && clocks >= packed_clocks(*packed)) return false;
  const NarrowPlan* narrow = find_narrow_plan(problem);
  if (narrow != nullptr && clocks >= narrow_clocks(*narrow, unit_elements(arithmetic_of(problem)))) return false;
  const CorrelationPlan* correlation = find_correlation_plan(problem);
  return correlation == nullptr || clocks < kMultiprocessors * correlation_clocks(*correlation, is_split(problem));
}

bool sliced_pays(const ConvProblem& problem) {
  const CorrelationPlan& sliced = *find_sliced_plan(problem);
  const CorrelationPlan* blocked = find_blocked_plan(problem);
  const bool split = is_split(problem);
  return slices_pay(sliced, *find_correlation_plan(problem), split) &&
         (blocked == nullptr || slices_pay(sliced, *blocked, split));
}

bool blocked_pays(const ConvProblem& problem) {
  const CorrelationPlan* other = find_correlation_plan(problem);
  if (other == nullptr || !correlation_pays(*other)) return false;
  const bool split = is_split(problem);
  return correlation_clocks(*find_blocked_plan(problem), split) < correlation_clocks(*other, split);
}

bool boxes_pay(const ConvProblem& problem) {
  const WeightPlan* other = find_wgmma_weight_plan(problem);
  return other == nullptr || boxes_pay(*find_boxes_weight_plan(problem), *other);
}

bool product_pays(const ConvProblem& problem) { return product_pays(*find_product_plan(problem)); }

bool plain_pays(const ConvProblem& problem) { return plain_pays(problem.geometry, problem.role == ConvRole::kImage); }

bool few_results_pay(const ConvProblem& problem) {
  return few_results_pay(*find_few_results_plan(problem), element_size(problem.dtype));
}

bool few_weight_pays(const ConvProblem& problem) {
  return few_weight_pays(*find_few_weight_plan(problem), element_size(problem.dtype));
}

bool channelwise_pays(const ConvProblem& problem) {
  // Only wgmma's kernels gather, and whether they take the problem is asked last: it plans them.
  return channelwise_pays(*find_channelwise_plan(problem), arithmetic_of(problem), true) ||
         !correlation_conv.takes(problem);
}

bool channelwise_weight_pays(const ConvProblem& problem) {
  constexpr std::int64_t kFewSums = 128;  // channels times channels of a group, times taps
  const ConvGeometry& g = problem.geometry;
  // Of as many sums as fill a tile, tensor cores that the copy engine feeds take half of the time in half precision.
  const bool fills = g.image_channels_per_group() * g.feature_channels_per_group() * g.taps() > kFewSums &&
                     arithmetic_of(problem) != Arithmetic::kFloat32;
  return !(fills && boxes_conv_weight.takes(problem) && boxes_pay(problem));
}

bool tapwise_pays(const ConvProblem& problem) {
  return keep_plan<Verdict>(problem,
                            [&](Verdict& verdict) {
                              verdict.pays = weight_copies_may_pay(problem) &&
                                             tapwise_pays(*find_tapwise_plan(problem), quickest_weight_order(problem));
                              return true;
                            })
      ->pays;
}

bool blocked_weight_pays(const ConvProblem& problem) {
  return keep_plan<Verdict>(problem,
                            [&](Verdict& verdict) {
                              verdict.pays =
                                  weight_copies_may_pay(problem) &&
                                  blocked_weight_pays(*find_blocked_weight_plan(problem), find_tapwise_plan(problem),
                                                      quickest_weight_order(problem));
                              return true;
                            })
      ->pays;
}

const WeightOrderChoice& quickest_weight_order(const ConvProblem& problem) {
  return *keep_plan<WeightOrderChoice>(problem, [&](WeightOrderChoice& choice) {
    choice = choose_weight_order(problem.geometry, arithmetic_of(problem));
    return true;
  });
}

bool weight_copies_may_pay(const ConvProblem& problem) {
  constexpr std::int64_t kFewestProducts = std::int64_t{1} << 27;  // fewer take no longer than copies
  const ConvGeometry& g = problem.geometry;
  return g.batch * g.feature_plane() * g.filter_numel() >= kFewestProducts &&
         !(channelwise_conv_weight.takes(problem) && channelwise_weight_pays(problem));
}

}  // namespace adjoint::cuda
