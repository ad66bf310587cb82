#include <adjoint/optim/clip.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/optim/clip_kernels.h>
#include <adjoint/optim/gradients.h>

#include <cmath>

namespace adjoint::optim {

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, const ClipGradNormOptions& options) {
  ADJOINT_CHECK(max_norm >= 0.0, "clip_grad_norm_: max_norm must not be negative; got {}", max_norm);
  ADJOINT_CHECK(options.norm_type > 0.0, "clip_grad_norm_: norm_type must be above 0; got {}", options.norm_type);
  const PauseTape pause;
  Gradients gradients("clip_grad_norm_", parameters);
  const Device device = gradients.device();
  const Norm rule{options.norm_type};
  Tensor norm = Tensor::zeros({}, {.dtype = kFloat64, .device = device});
  double* const result = norm.mutable_data<double>();
  if (device.is_cpu()) {
    cpu::norm(gradients.pieces(), rule, result);
  } else {
#if defined(ADJOINT_WITH_CUDA)
    cuda::norm(gradients.pieces(), rule, result, device.index);
#endif
  }
  if (options.error_if_nonfinite) {
    const double value = norm.item<double>();
    ADJOINT_CHECK(std::isfinite(value), "clip_grad_norm_: the norm of the gradients must be finite; got {}", value);
  }
  gradients.rewrite([&](const std::vector<Piece>& pieces) {
    if (device.is_cpu()) return cpu::scale(pieces, result, max_norm);
#if defined(ADJOINT_WITH_CUDA)
    cuda::scale(pieces, result, max_norm, device.index);
#endif
  });
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  ADJOINT_CHECK(clip_value >= 0.0, "clip_grad_value_: clip_value must not be negative; got {}", clip_value);
  const PauseTape pause;
  Gradients gradients("clip_grad_value_", parameters);
  const Device device = gradients.device();
  gradients.rewrite([&](const std::vector<Piece>& pieces) {
    if (device.is_cpu()) return cpu::clamp(pieces, clip_value);
#if defined(ADJOINT_WITH_CUDA)
    cuda::clamp(pieces, clip_value, device.index);
#endif
  });
}

}  // namespace adjoint::optim
