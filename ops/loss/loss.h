// Losses: distances between a prediction and a target, element by element.
//
// Input and target have one shape, floating-point dtype and device. Nothing broadcasts, because broadcasting in a loss
// is usually a mistake. The result is a scalar, or for kNone has their shape. float16 and bfloat16 are computed in
// float32 and rounded once, gradients too. A loss and its reduction are one pass over memory, and so is its gradient.
// Differentiable in both operands, to any order. Throws Error for operands that differ.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string_view>

namespace adjoint {

/// The reduction of the elements' losses. A mean over no elements is NaN. kBatchMean, only for kl_div: their sum,
/// divided by the extent of axis 0.
enum class Reduction : std::uint8_t { kMean, kSum, kNone, kBatchMean };

/// "mean", "sum", "none", "batchmean": mse_loss(x, y, "sum").
ADJOINT_API Reduction enumerator(std::string_view name, Reduction);

/// (input - target)^2.
ADJOINT_API Tensor mse_loss(const Tensor& input, const Tensor& target, Named<Reduction> reduction = Reduction::kMean);
/// |input - target|; the gradient is 0 where they are equal, and NaN where either is NaN.
ADJOINT_API Tensor l1_loss(const Tensor& input, const Tensor& target, Named<Reduction> reduction = Reduction::kMean);
/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2 (Girshick: "Fast R-CNN", 2015); l1_loss
/// for a beta of 0. Throws Error for a negative beta.
ADJOINT_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                  Named<Reduction> reduction = Reduction::kMean, double beta = 1.0);
/// With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2) (Huber: "Robust estimation of a
/// location parameter", 1964). Throws Error unless delta > 0.
ADJOINT_API Tensor huber_loss(const Tensor& input, const Tensor& target, Named<Reduction> reduction = Reduction::kMean,
                              double delta = 1.0);
/// sqrt((input - target)^2 + eps^2) (Lai et al.: "Deep Laplacian pyramid networks", 2017). Throws Error unless eps > 0.
ADJOINT_API Tensor charbonnier_loss(const Tensor& input, const Tensor& target, double eps = 1e-3,
                                    Named<Reduction> reduction = Reduction::kMean);

struct BinaryCrossEntropyOptions {
  /// Factors of the elements' losses, expanded to their shape. A mean still divides by the number of elements.
  Tensor weight = {};
  Named<Reduction> reduction = Reduction::kMean;
};
/// -target log(input) - (1 - target) log(1 - input) for probabilities: NaN outside [0, 1]. A logarithm below -100
/// counts as -100. Throws Error for a weight that does not expand to the input's shape.
ADJOINT_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});
inline Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return binary_cross_entropy(input, target, BinaryCrossEntropyOptions{.reduction = reduction});
}

struct BinaryCrossEntropyWithLogitsOptions {
  /// As in BinaryCrossEntropyOptions.
  Tensor weight = {};
  Named<Reduction> reduction = Reduction::kMean;
  /// Factors of the positive examples' terms; expanded to the input's shape.
  Tensor pos_weight = {};
};
/// binary_cross_entropy of sigmoid(input), computed without overflow or cancellation at either end.
ADJOINT_API Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                                    const BinaryCrossEntropyWithLogitsOptions& options = {});
inline Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return binary_cross_entropy_with_logits(input, target, BinaryCrossEntropyWithLogitsOptions{.reduction = reduction});
}

struct KlDivOptions {
  Named<Reduction> reduction = Reduction::kMean;
  /// The target holds logarithms too.
  bool log_target = false;
};
/// target (log(target) - input), where `input` holds logarithms of probabilities (Kullback, Leibler: "On information
/// and sufficiency", 1951); 0 where target is 0. kBatchMean gives the mathematical divergence. Throws Error for
/// kBatchMean without an axis.
ADJOINT_API Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});
inline Tensor kl_div(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return kl_div(input, target, KlDivOptions{.reduction = reduction});
}

}  // namespace adjoint
