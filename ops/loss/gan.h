// Losses of generative adversarial networks, from a discriminator's (or critic's) raw scores of real and of generated
// samples, of any shapes: it gives no probabilities. A result is a scalar, or for kNone has the scores' shape. 16-bit
// types are computed in float32 and rounded once. Differentiable to any order.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/loss/loss.h>

#include <cstdint>
#include <functional>

namespace adjoint {

/// discriminator: of real and fake scores; generator: of fake scores.
enum class GanLoss : std::uint8_t {
  /// softplus(-real) + softplus(fake); softplus(-fake), the loss that does not saturate (Goodfellow et al.: "Generative
  /// adversarial nets", 2014): binary cross entropy of scores as logits.
  kNonSaturating,
  /// relu(1 - real) + relu(1 + fake); -fake (Lim, Ye: "Geometric GAN", 2017).
  kHinge,
  /// ((real - 1)^2 + fake^2) / 2; (fake - 1)^2 / 2 (Mao et al.: "Least squares generative adversarial networks", 2017).
  kLeastSquares,
  /// fake - real; -fake (Arjovsky, Chintala, Bottou: "Wasserstein GAN", 2017).
  kWasserstein,
};

/// The real scores' part reduced and the fake scores' part reduced, added up. The two may differ in shape, as batches
/// do in length, but for kNone. Throws Error for scores that are not floating point, dtypes that differ, and, for
/// kNone, shapes that differ.
ADJOINT_API Tensor gan_discriminator_loss(GanLoss loss, const Tensor& real, const Tensor& fake,
                                          Reduction reduction = Reduction::kMean);
/// Throws Error for scores that are not floating point.
ADJOINT_API Tensor gan_generator_loss(GanLoss loss, const Tensor& fake, Reduction reduction = Reduction::kMean);

struct GradientPenaltyOptions {
  /// The norm that gradients should have.
  double target = 1.0;
  Reduction reduction = Reduction::kMean;
  /// (N), of the samples' dtype: where each x lies between real and fake. Undefined: drawn uniformly from [0, 1), from
  /// the global generator.
  Tensor u = {};
};
/// (|d critic(x) / dx| - target)^2 at x = real + u (fake - real), u uniform on [0, 1) for each sample; the norm is over
/// all axes but the first, and its gradient at 0 is 0. One value for each sample, reduced (Gulrajani et al.: "Improved
/// training of Wasserstein GANs", 2017). `critic` maps samples (N, ...) to scores, which are added up: a sample's
/// scores must depend on that sample alone. Differentiable in what the critic computes with, where a tape records;
/// real, fake and u are constants. Throws Error for an empty critic, for samples without a batch axis, of different
/// shapes or dtypes, or not floating point, for a u of another shape or dtype, and for scores that do not depend on the
/// samples.
ADJOINT_API Tensor gradient_penalty(const std::function<Tensor(const Tensor&)>& critic, const Tensor& real,
                                    const Tensor& fake, const GradientPenaltyOptions& options = {});

}  // namespace adjoint
