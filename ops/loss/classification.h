// Losses of class scores.
//
// Scores (N, C), (N, C, d1, ...) or (C): classes are axis 1, or the only axis. 16-bit types are computed in float32 and
// rounded once. Differentiable to any order in every floating-point operand. Throws Error for operands whose shapes,
// dtypes or devices do not fit, and on the CPU for a class index that is neither ignored nor in [0, C). On a GPU, where
// a check would wait for the device, such an index makes the loss NaN.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/loss.h>

#include <cstdint>

namespace adjoint {

struct NllLossOptions {
  /// (C): each class's factor; undefined: 1.
  Tensor weight = {};
  /// Targets of this value have no loss, and do not count in a mean.
  std::int64_t ignore_index = -100;
  /// A mean divides by the sum of the targets' weights, so it is NaN if all are ignored.
  Named<Reduction> reduction = Reduction::kMean;
};
/// -weight[target] input[target]; `input` holds logarithms of probabilities, and `target` (int64) has its shape without
/// the axis of classes.
ADJOINT_API Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});
inline Tensor nll_loss(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return nll_loss(input, target, NllLossOptions{.reduction = reduction});
}

struct CrossEntropyOptions {
  Tensor weight = {};
  /// For targets of class indices.
  std::int64_t ignore_index = -100;
  Named<Reduction> reduction = Reduction::kMean;
  /// In [0, 1]: the part of the target that is spread evenly over all classes (Szegedy et al.: "Rethinking the
  /// Inception architecture", 2016).
  double label_smoothing = 0.0;
};
/// nll_loss of log_softmax(input). The target holds class indices (int64) as in nll_loss, or the classes'
/// probabilities, of the input's shape and dtype. With probabilities the loss is -sum over c of weight[c] target[c]
/// log_softmax(input)[c], and its mean is over the positions.
ADJOINT_API Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options = {});
inline Tensor cross_entropy(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return cross_entropy(input, target, CrossEntropyOptions{.reduction = reduction});
}

struct DiceLossOptions {
  Named<Reduction> reduction = Reduction::kMean;
  /// Added to numerator and denominator.
  double smooth = 1e-5;
  /// The denominator sums squares.
  bool squared = false;
};
/// 1 - (2 sum(input target) + smooth) / (sum(input) + sum(target) + smooth), the sums over the axes from 2 on: one loss
/// for each sample and channel (Milletari, Navab, Ahmadi: "V-Net", 2016). Input and target are probabilities, of one
/// shape (N, C, d1, ...) and dtype. Throws Error for fewer than three axes and a negative smooth.
ADJOINT_API Tensor dice_loss(const Tensor& input, const Tensor& target, const DiceLossOptions& options = {});
inline Tensor dice_loss(const Tensor& input, const Tensor& target, Named<Reduction> reduction) {
  return dice_loss(input, target, DiceLossOptions{.reduction = reduction});
}

}  // namespace adjoint
