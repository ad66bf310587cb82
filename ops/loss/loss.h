// Losses: distances between a prediction and a target, element by element.
//
// Input and target have one shape, floating-point dtype and device: nothing broadcasts, since a loss that broadcasts is
// a mistake more often than not. The result is a scalar, or for kNone has their shape. float16 and bfloat16 are
// computed in float32 and rounded once, gradients too; a loss and its reduction are one pass over memory, and so is its
// gradient. Differentiable in both operands, to any order. Throws Error for operands that differ.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// What becomes of the elements' losses. A mean over no elements is NaN. kBatchMean, kl_div's alone: their sum, divided
/// by the extent of axis 0.
enum class Reduction : std::uint8_t { kMean, kSum, kNone, kBatchMean };

/// (input - target)^2.
ADJOINT_API Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);
/// |input - target|; the gradient is 0 where they are equal, and NaN where one is.
ADJOINT_API Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean);
/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2 (Girshick: "Fast R-CNN", 2015); l1_loss
/// for a beta of 0. Throws Error for a negative beta.
ADJOINT_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean,
                                  double beta = 1.0);
/// With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2) (Huber: "Robust estimation of a
/// location parameter", 1964). Throws Error unless delta > 0.
ADJOINT_API Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::kMean,
                              double delta = 1.0);
/// sqrt((input - target)^2 + eps^2) (Lai et al.: "Deep Laplacian pyramid networks", 2017). Throws Error unless eps > 0.
ADJOINT_API Tensor charbonnier_loss(const Tensor& input, const Tensor& target, double eps = 1e-3,
                                    Reduction reduction = Reduction::kMean);

struct BinaryCrossEntropyOptions {
  /// Factors of the elements' losses; expanded to their shape. A mean divides by the number of elements all the same.
  Tensor weight = {};
  Reduction reduction = Reduction::kMean;
};
/// -target log(input) - (1 - target) log(1 - input) of probabilities: NaN outside [0, 1]. A logarithm below -100 counts
/// as -100. Throws Error for a weight that does not expand to the input's shape.
ADJOINT_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});
inline Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, Reduction reduction) {
  return binary_cross_entropy(input, target, BinaryCrossEntropyOptions{.reduction = reduction});
}

struct BinaryCrossEntropyWithLogitsOptions {
  /// As BinaryCrossEntropyOptions.
  Tensor weight = {};
  Reduction reduction = Reduction::kMean;
  /// Factors of the positive examples' part; expanded to the input's shape.
  Tensor pos_weight = {};
};
/// binary_cross_entropy of sigmoid(input), computed so that no end overflows or cancels.
ADJOINT_API Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                                    const BinaryCrossEntropyWithLogitsOptions& options = {});
inline Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target, Reduction reduction) {
  return binary_cross_entropy_with_logits(input, target, BinaryCrossEntropyWithLogitsOptions{.reduction = reduction});
}

struct KlDivOptions {
  Reduction reduction = Reduction::kMean;
  /// The target is logarithms too.
  bool log_target = false;
};
/// target (log(target) - input), where `input` is logarithms of probabilities (Kullback, Leibler: "On information and
/// sufficiency", 1951); 0 where target is 0. kBatchMean gives the divergence as mathematics has it. Throws Error for
/// kBatchMean without an axis.
ADJOINT_API Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});
inline Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction) {
  return kl_div(input, target, KlDivOptions{.reduction = reduction});
}

}  // namespace adjoint
