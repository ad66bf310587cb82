// Which order of its operands serves conv_weight best: models of its kernels, and of the copies.
#include <adjoint/ops/conv/choose/orders.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/parts.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// How many times as long as modelled a plan of plan_wgmma_weight() takes, whose threads copy (bench/lab/LOG.md):
/// halves with a stride, the more so where they are sorted one by one, and those of rows that begin amid words.
double copied_slowness(const WeightPlan& copied) {
  if (copied.unit_elements == 1) return 1;
  const bool amid_words = copied.image_w % 2 != 0;
  if (copied.stride_w == 1) return amid_words || copied.feature_w % 2 != 0 ? 3 : 1;
  if (copied.stride_w % 2 != 0) return 5.5;
  if (amid_words) return 5;
  return copied.feature_w % 8 == 0 ? 2 : 3;
}

double boxes_clocks(const ConvGeometry& geometry, Arithmetic arithmetic, const Machine& machine, WeightPlan& plan) {
  if (!plan_boxed_weight(simplified(geometry, false), arithmetic, machine, plan)) return kNever;
  // Measured: with planes 8 halves wide boxes take 1.2 to 1.27 times what the model says.
  const bool short_rows = plan.feature_w * element_bytes(arithmetic) <= 16;
  return (short_rows ? 1.25 : 1) * weight_parts::wgmma_weight_clocks(plan, is_split(arithmetic), machine);
}

double clocks(const RearrangedPlan& plan, Arithmetic arithmetic, const Machine& machine, WeightPlan& weight) {
  const std::int64_t size = element_bytes(arithmetic);
  return boxes_clocks(plan.geometry, arithmetic, machine, weight) + unshuffle_clocks(plan.image, size) +
         unshuffle_clocks(plan.feature, size) + samples_last_clocks(plan.image_samples, size) +
         samples_last_clocks(plan.feature_samples, size);
}

}  // namespace

bool boxes_pay(const WeightPlan& boxes, const WeightPlan& copied) {
  // Measured: the kernel is from 1.05 to 1.9 times as fast for each position.
  const double most_padding = 1.25 * copied_slowness(copied);
  const auto positions = [](const WeightPlan& plan) {
    return static_cast<double>(plan.stages) * (1 << plan.log2_positions());
  };
  return positions(boxes) <= most_padding * positions(copied);
}

bool plan_weight_order(const ConvGeometry& g, Arithmetic arithmetic, const Machine& machine, RearrangedPlan& plan) {
  // The shares here and in boxes_clocks() protect from what the models do not know. Without any one of them choices
  // lose by regret_test: one takes 1.8 to 2 times as long as the quickest kernel, or a mean is above its limit.
  const bool split = is_split(arithmetic);
  const std::int64_t size = element_bytes(arithmetic);
  WeightPlan weight, copied;
  bool copies = false;
  double best = boxes_clocks(g, arithmetic, machine, weight);
  const bool has_boxes = best != kNever;
  if (plan_wgmma_weight(g, arithmetic, machine, copied) && !(has_boxes && boxes_pay(weight, copied))) {
    // The share of the model's clocks that a copy must beat. Of what models say, threads that copy and split float32
    // take 1.1 to 1.6 times, boxes behind a copy 1 to 1.2.
    const double to_beat = split ? 1 / .9 : 1 / 1.25;
    best = to_beat * copied_slowness(copied) * weight_parts::wgmma_weight_clocks(copied, split, machine);
  } else {
    best /= 1.5;  // models are off by so much: what no copy precedes is as they say, what one does takes longer
  }
  const auto consider = [&](const RearrangedPlan& candidate) {
    const double time = clocks(candidate, arithmetic, machine, weight);
    if (time >= best) return;
    best = time;
    plan = candidate;
    copies = true;
  };
  RearrangedPlan candidate{.geometry = g};
  if (pad_rows(g, size, candidate)) consider(candidate);
  if (plan_strides_as_channels(g, false, size, candidate)) {
    pad_rows(g, size, candidate);
    consider(candidate);
  }
  if (plan_batch_as_columns(g, size, candidate)) consider(candidate);
  return copies;
}

}  // namespace adjoint::cuda
