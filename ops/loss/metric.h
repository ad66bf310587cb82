// Losses of distances between embeddings: vectors along the last axis, (N, D) or (D), floating point, of one dtype and
// device. The result is a scalar, or for Reduction::kNone a loss for each vector. 16-bit types are computed in float32
// and rounded once. Differentiable to any order in every floating-point operand. Throws Error for operands that do not
// fit.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/loss.h>

namespace adjoint {

struct TripletMarginLossOptions {
  double margin = 1.0;
  /// Of the norm.
  double p = 2.0;
  /// Added to differences.
  double eps = 1e-6;
  /// Measures from the positive example to the negative one where that is shorter (Balntas et al.: "Learning local
  /// feature descriptors with triplets and shallow convolutional neural networks", 2016).
  bool swap = false;
  Reduction reduction = Reduction::kMean;
};
/// max(d(anchor, positive) - d(anchor, negative) + margin, 0), d being pairwise_distance (Schroff, Kalenichenko,
/// Philbin: "FaceNet", 2015). The three broadcast. Throws Error unless margin is positive.
ADJOINT_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                       const TripletMarginLossOptions& options = {});

struct CosineEmbeddingLossOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::kMean;
};
/// 1 - cos(a, b) where `target` is 1, max(cos(a, b) - margin, 0) where it is -1, and 0 elsewhere: a and b (N, D),
/// target (N), or a and b (D), target (). Target is of any dtype. Throws Error for other shapes.
ADJOINT_API Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                         const CosineEmbeddingLossOptions& options = {});

}  // namespace adjoint
