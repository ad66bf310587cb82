// Connectionist temporal classification.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/loss.h>

#include <cstdint>
#include <vector>

namespace adjoint {

struct CtcLossOptions {
  /// The class that means no label.
  std::int64_t blank = 0;
  /// A mean is over the losses, each divided by its target's length (an empty one's by 1).
  Reduction reduction = Reduction::kMean;
  /// Infinite losses, of targets that do not fit into their inputs, and their gradients become 0.
  bool zero_infinity = false;
};
/// -log of the probability that frames 0 to input_lengths[n] - 1 of sample n spell its target: summed over all ways to
/// repeat labels and to put blanks between them (Graves, Fernandez, Gomez, Schmidhuber: "Connectionist temporal
/// classification", 2006). log_probs (T, N, C) or (T, C): logarithms of probabilities, floating point. targets, int64
/// or int32: (N, S), of which sample n has the first target_lengths[n], or all samples' one after another in one axis.
///
/// The loss is composed of operators in T steps, so a tape keeps T N (2 S + 1) elements several times. 16-bit types are
/// computed in float32 and rounded once. Differentiable in log_probs, to any order; the gradient is that of log_probs,
/// whereas PyTorch's is that of the scores before log_softmax: after log_softmax both are the same. Waits for the
/// device. Throws Error for shapes and dtypes that do not fit, a blank or a label outside [0, C), a label that is the
/// blank, and lengths outside [1, T] and [0, S].
ADJOINT_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                            const std::vector<std::int64_t>& input_lengths,
                            const std::vector<std::int64_t>& target_lengths, const CtcLossOptions& options = {});
/// The same with lengths as tensors of integers.
ADJOINT_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                            const Tensor& target_lengths, const CtcLossOptions& options = {});

}  // namespace adjoint
