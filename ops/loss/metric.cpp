// Losses of embeddings, in other operators.
#include <adjoint/ops/loss/metric.h>

#include <adjoint/ops/distance/distance.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/reduction.h>

namespace adjoint {
namespace {

void check_embedding(const char* op, const char* name, const Tensor& x, const Tensor& first) {
  loss::check_floating(op, name, x);
  ADJOINT_CHECK(x.dim() >= 1 && x.dim() <= 2 && x.dtype() == first.dtype(),
                "{}: operands must be (N, D) or (D) and share a dtype; got {} {} {} beside {} {}", op, name, x.dtype(),
                x.shape(), first.dtype(), first.shape());
}

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  constexpr const char* kOp = "triplet_margin_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {anchor, positive, negative}); full) {
    return triplet_margin_loss(full[0], full[1], full[2], options);
  }
  loss::check_floating(kOp, "anchor", anchor);
  check_embedding(kOp, "anchor", anchor, anchor);
  check_embedding(kOp, "positive", positive, anchor);
  check_embedding(kOp, "negative", negative, anchor);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(options.margin > 0.0, "{}: margin must be positive; got {}", kOp, options.margin);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(widened(a), widened(b), options.p, options.eps);
  };
  Tensor apart = distance(anchor, negative);
  if (options.swap) apart = minimum(apart, distance(positive, negative));
  const Tensor each = clamp_min(distance(anchor, positive) - apart + options.margin, 0.0);
  return loss::reduced(each, options.reduction).to(anchor.dtype());
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingLossOptions& options) {
  constexpr const char* kOp = "cosine_embedding_loss";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {a, b}); full) {
    return cosine_embedding_loss(full[0], full[1], target, options);
  }
  loss::check_pair(kOp, "a", a, "b", b);
  check_embedding(kOp, "a", a, a);
  check_defined(kOp, "target", target);
  loss::check_reduction(kOp, options.reduction);
  ADJOINT_CHECK(target.shape() == Shape(a.shape().begin(), a.shape().end() - 1),
                "{}: target must have one element per vector; got target {} for a {}", kOp, target.shape(), a.shape());
  // PyTorch's constant, a float, which keeps a length of 0 from being divided by.
  constexpr double kTiny = 1e-12F;
  const Tensor x = widened(a), y = widened(b);
  const Tensor lengths = sqrt((square(x).sum(-1) + kTiny) * (square(y).sum(-1) + kTiny));
  const Tensor cosine = (x * y).sum(-1) / lengths, zero = Tensor::zeros({}, cosine.options());
  const Tensor alike = where(target == 1, 1.0 - cosine, zero);
  const Tensor unlike = where(target == -1, clamp_min(cosine - options.margin, 0.0), zero);
  return loss::reduced(alike + unlike, options.reduction).to(a.dtype());
}

}  // namespace adjoint
