// nll_loss, cross_entropy and dice_loss, composed of other operators.
#include <adjoint/ops/loss/classification.h>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/loss/reduction.h>
#include <adjoint/ops/softmax/kernels.h>

#include <limits>

namespace adjoint {
namespace {

std::int64_t class_axis(const Tensor& input) { return input.dim() == 1 ? 0 : 1; }

// (C) as (1, C, 1, ...), so that it aligns with the input's classes.
Tensor along_classes(const Tensor& values, const Tensor& input) {
  Shape shape = Dims::filled(input.shape().size(), 1);
  shape[static_cast<std::size_t>(class_axis(input))] = values.numel();
  return values.reshape(shape);
}

void check_scores(const char* op, const Tensor& input, const Tensor& weight) {
  loss::check_floating(op, "input", input);
  ADJOINT_CHECK(input.dim() >= 1, "{}: input must have an axis of classes; got shape {}", op, input.shape());
  if (!weight.defined()) return;
  const std::int64_t classes = input.size(class_axis(input));
  loss::check_floating(op, "weight", weight);
  ADJOINT_CHECK(weight.shape() == Shape{classes}, "{}: weight must have one element a class; got weight {}, input {}",
                op, weight.shape(), input.shape());
  ADJOINT_CHECK(weight.dtype() == input.dtype(), "{}: weight and input must have one dtype; got weight {}, input {}",
                op, weight.dtype(), input.dtype());
}

void check_classes(const char* op, const Tensor& input, const Tensor& target, std::int64_t ignore_index) {
  Shape expected = input.shape();
  expected.erase(static_cast<std::size_t>(class_axis(input)));
  ADJOINT_CHECK(target.shape() == expected,
                "{}: target must have input's shape without the axis of classes; got target {}, input {}", op,
                target.shape(), input.shape());
  if (!target.device().is_cpu()) return;
  const std::int64_t classes = input.size(class_axis(input));
  detail::check_elements(op, target.contiguous(), [=](const Tensor& values) {
    const auto* data = values.data<std::int64_t>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      ADJOINT_CHECK(data[i] == ignore_index || (data[i] >= 0 && data[i] < classes),
                    "{}: a target must be in [0, {}) or {}, the ignored index; got {} for element {} of {}", op,
                    classes, ignore_index, data[i], i, values.shape());
    }
  });
}

// Checks that the target's dtype matches the kind of target that its shape implies.
void check_kind_of_target(const char* op, const Tensor& input, const Tensor& target) {
  if (input.dim() < 1) return;
  Shape of_classes = input.shape();
  of_classes.erase(static_cast<std::size_t>(class_axis(input)));
  const bool real = is_floating_point(target.dtype());
  ADJOINT_CHECK(!real || target.shape() != of_classes || target.shape() == input.shape(),
                "{}: a target of class indices must be int64; got {} {} for input {}; convert with to(kInt64)", op,
                target.dtype(), target.shape(), input.shape());
  ADJOINT_CHECK(real || target.shape() != input.shape() || target.shape() == of_classes,
                "{}: a target of probabilities must be floating point, as input is; got {} {} for input {} {}; convert "
                "with to({})",
                op, target.dtype(), target.shape(), input.dtype(), input.shape(), input.dtype());
}

// Class indices against scores, in the scores' dtype.
class HardTargets {
 public:
  HardTargets(const Tensor& scores, const Tensor& target, const Tensor& weight, std::int64_t ignore_index)
      : axis_(class_axis(scores)), weight_(weight) {
    const TensorOptions options{.dtype = kInt64, .device = target.device()};
    const auto classes = static_cast<double>(scores.size(axis_));
    kept_ = target != Tensor::from_vector<std::int64_t>({ignore_index}, {}, options);
    const Tensor inside = logical_and(target >= 0.0, target < classes);
    kept_and_inside_ = logical_and(kept_, inside);
    index_ = where(kept_and_inside_, target, Tensor::zeros({}, options));
    const TensorOptions floating{.dtype = scores.dtype(), .device = target.device()};
    // A target outside every class gets weight 0, but NaN stays NaN.
    const Tensor nothing = where(logical_or(inside, logical_not(kept_)), Tensor::zeros({}, floating),
                                 Tensor::full({}, std::numeric_limits<double>::quiet_NaN(), floating));
    const auto of_targets = [&] { return index_select(weight, 0, index_.reshape({-1})).reshape(target.shape()); };
    weights_ = (weight.defined() ? picked(of_targets()) : kept_.to(scores.dtype())) + nothing;
  }

  /// -weight[target] * scores[target], 0 where the target is ignored.
  Tensor losses(const Tensor& scores) const {
    const Tensor of_targets = gather(scores, axis_, index_.unsqueeze(axis_)).squeeze(axis_);
    return where(kept_, -(picked(of_targets) * weights_), 0.0);
  }
  /// -sum over c of weight[c] scores[c], 0 where the target is ignored.
  Tensor spread_losses(const Tensor& scores) const {
    const Tensor all = weight_.defined() ? scores * along_classes(weight_, scores) : scores;
    return where(kept_, -all.sum({axis_}), 0.0);
  }
  /// A mean divides by the sum of the targets' weights.
  Tensor reduced(const Tensor& each, Reduction reduction) const {
    return reduction == Reduction::kMean ? each.sum() / where(kept_, weights_, 0.0).sum()
                                         : loss::reduced(each, reduction);
  }

 private:
  // 0 where the target is outside every class; index_ has the first class there.
  Tensor picked(const Tensor& x) const { return where(kept_and_inside_, x, 0.0); }

  std::int64_t axis_;
  Tensor weight_;
  Tensor kept_, kept_and_inside_, index_;
  Tensor weights_;  // of the targets
};

// The target holds probabilities of classes.
Tensor soft_cross_entropy(const Tensor& scores, const Tensor& target, const CrossEntropyOptions& options) {
  const std::int64_t axis = class_axis(scores);
  const auto classes = static_cast<double>(scores.size(axis));
  const double smoothing = options.label_smoothing;
  Tensor wanted = widened(target);
  if (smoothing > 0.0) wanted = wanted * (1.0 - smoothing) + smoothing / classes;
  if (options.weight.defined()) wanted = wanted * along_classes(widened(options.weight), scores);
  // A class with target 0 costs nothing, even if its score is -infinity.
  const Tensor needless = logical_and(wanted == 0.0, scores == -std::numeric_limits<double>::infinity());
  return loss::reduced(-(masked_fill(scores, needless, 0.0) * wanted).sum({axis}), options.reduction);
}

}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options) {
  constexpr const char* kOp = "nll_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target, options.weight}); full) {
    auto with_weight = options;
    with_weight.weight = full[2];
    return nll_loss(full[0], full[1], with_weight);
  }
  check_scores(kOp, input, options.weight);
  check_defined(kOp, "target", target);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(target.dtype() == kInt64, "{}: target must be int64; got {}; convert with to()", kOp, target.dtype());
  check_classes(kOp, input, target, options.ignore_index);
  const Tensor scores = widened(input);
  const HardTargets targets(scores, target, widened(options.weight), options.ignore_index);
  return targets.reduced(targets.losses(scores), options.reduction).to(input.dtype());
}

Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options) {
  constexpr const char* kOp = "cross_entropy";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target, options.weight}); full) {
    auto with_weight = options;
    with_weight.weight = full[2];
    return cross_entropy(full[0], full[1], with_weight);
  }
  const double smoothing = options.label_smoothing;
  check_scores(kOp, input, options.weight);
  check_defined(kOp, "target", target);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(smoothing >= 0.0 && smoothing <= 1.0, "{}: label_smoothing must be in [0, 1]; got {}", kOp, smoothing);
  const bool soft = is_floating_point(target.dtype());
  check_kind_of_target(kOp, input, target);
  if (soft) {
    loss::check_pair(kOp, "input", input, "target", target);
  } else {
    ADJOINT_CHECK(target.dtype() == kInt64,
                  "{}: target must be int64, or floating point as input is; got {}; convert with to()", kOp,
                  target.dtype());
    check_classes(kOp, input, target, options.ignore_index);
  }
  const std::int64_t axis = class_axis(input);
  const Tensor scores = widened_log_softmax(input, axis);
  if (soft) return soft_cross_entropy(scores, target, options).to(input.dtype());
  const HardTargets targets(scores, target, widened(options.weight), options.ignore_index);
  Tensor each = targets.losses(scores);
  if (smoothing > 0.0) {
    const double share = smoothing / static_cast<double>(scores.size(axis));
    each = each * (1.0 - smoothing) + targets.spread_losses(scores) * share;
  }
  return targets.reduced(each, options.reduction).to(input.dtype());
}

Tensor dice_loss(const Tensor& input, const Tensor& target, const DiceLossOptions& options) {
  constexpr const char* kOp = "dice_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return dice_loss(full[0], full[1], options);
  }
  loss::check_pair(kOp, "input", input, "target", target);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(input.dim() >= 3, "{}: input must have at least three axes, (N, C, d1, ...); got shape {}", kOp,
                input.shape());
  ADJOINT_CHECK(options.smooth >= 0.0, "{}: smooth must not be negative; got {}", kOp, options.smooth);
  const Tensor x = widened(input), y = widened(target);
  Dims axes;
  for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
  const Tensor common = (x * y).sum(axes);
  const Tensor all = options.squared ? (square(x) + square(y)).sum(axes) : (x + y).sum(axes);
  const Tensor each = 1.0 - (common * 2.0 + options.smooth) / (all + options.smooth);
  return loss::reduced(each, options.reduction).to(input.dtype());
}

}  // namespace adjoint
