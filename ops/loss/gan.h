// Losses of generative adversarial networks, from the raw scores (not probabilities) of a discriminator or critic for
// real and for generated samples, of any shapes. A result is a scalar, or for kNone has the scores' shape. 16-bit types
// are computed in float32 and rounded once. Differentiable to any order.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/loss.h>

#include <cstdint>
#include <functional>

namespace adjoint {

/// Each line gives the discriminator's loss of real and fake scores, then the generator's loss of fake scores.
enum class GanLoss : std::uint8_t {
  /// softplus(-real) + softplus(fake); softplus(-fake), the non-saturating loss (Goodfellow et al.: "Generative
  /// adversarial nets", 2014): binary cross entropy of scores as logits.
  kNonSaturating,
  /// relu(1 - real) + relu(1 + fake); -fake (Lim, Ye: "Geometric GAN", 2017).
  kHinge,
  /// ((real - 1)^2 + fake^2) / 2; (fake - 1)^2 / 2 (Mao et al.: "Least squares generative adversarial networks", 2017).
  kLeastSquares,
  /// fake - real; -fake (Arjovsky, Chintala, Bottou: "Wasserstein GAN", 2017).
  kWasserstein,
};

/// The reduced loss of the real scores plus the reduced loss of the fake scores. Except for kNone, the two may differ
/// in shape, such as the batch. Throws Error for scores that are not floating point, dtypes that differ, and, for
/// kNone, shapes that differ.
ADJOINT_API Tensor gan_discriminator_loss(GanLoss loss, const Tensor& real, const Tensor& fake,
                                          Named<Reduction> reduction = Reduction::kMean);
/// Throws Error for scores that are not floating point.
ADJOINT_API Tensor gan_generator_loss(GanLoss loss, const Tensor& fake, Named<Reduction> reduction = Reduction::kMean);

struct GradientPenaltyOptions {
  /// The target norm of the gradients.
  double target = 1.0;
  Named<Reduction> reduction = Reduction::kMean;
  /// (N), of the samples' dtype: the position of each x between real and fake. Undefined: drawn uniformly from [0, 1),
  /// from the global generator.
  Tensor u = {};
};
/// (|d critic(x) / dx| - target)^2 at x = real + u (fake - real), u uniform on [0, 1) for each sample; the norm is over
/// all axes but the first, and its gradient at 0 is 0. One value for each sample, reduced (Gulrajani et al.: "Improved
/// training of Wasserstein GANs", 2017). `critic` maps samples (N, ...) to scores, which are added up: a sample's
/// scores must depend on that sample alone. If a tape records, differentiable in the tensors that the critic uses;
/// real, fake and u are constants. Throws Error for an empty critic, for samples without a batch axis, of different
/// shapes or dtypes, or not floating point, for a u of another shape or dtype, and for scores that do not depend on the
/// samples.
ADJOINT_API Tensor gradient_penalty(const std::function<Tensor(const Tensor&)>& critic, const Tensor& real,
                                    const Tensor& fake, const GradientPenaltyOptions& options = {});

}  // namespace adjoint
