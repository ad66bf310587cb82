#include <adjoint/optim/clip.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/optim/clip_kernels.h>

#include <cmath>

namespace adjoint::optim {
namespace {

// The gradients that there are, as contiguous pieces of one device. Those of other strides are worked on as copies,
// which go back at the end.
class Gradients {
 public:
  Gradients(const char* op, const std::vector<Tensor>& parameters) {
    for (const Tensor& parameter : parameters) {
      check_defined(op, "parameter", parameter);
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      check_writable(op, gradient);
      if (gradients_.empty()) device_ = gradient.device();
      ADJOINT_CHECK(gradient.device() == device_, "{}: gradients must be on one device; got {} and {}", op, device_,
                    gradient.device());
      gradients_.push_back(gradient);
    }
    for (const Tensor& gradient : gradients_) {
      packed_.push_back(contiguous_copy(gradient));
      if (gradient.numel() == 0) continue;
      pieces_.push_back({packed_.back().raw_mutable_data(), gradient.numel(), gradient.dtype()});
    }
  }

  Device device() const { return device_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  void write_back() {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (packed_[i].impl() != gradients_[i].impl()) gradients_[i].copy_(packed_[i]);
    }
  }

 private:
  Device device_ = kCPU;
  std::vector<Tensor> gradients_;
  std::vector<Tensor> packed_;
  std::vector<Piece> pieces_;
};

}  // namespace

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
  if (device.is_cpu()) {
    cpu::scale(gradients.pieces(), result, max_norm);
  } else {
#if defined(ADJOINT_WITH_CUDA)
    cuda::scale(gradients.pieces(), result, max_norm, device.index);
#endif
  }
  gradients.write_back();
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  ADJOINT_CHECK(clip_value >= 0.0, "clip_grad_value_: clip_value must not be negative; got {}", clip_value);
  const PauseTape pause;
  Gradients gradients("clip_grad_value_", parameters);
  if (gradients.device().is_cpu()) {
    cpu::clamp(gradients.pieces(), clip_value);
  } else {
#if defined(ADJOINT_WITH_CUDA)
    cuda::clamp(gradients.pieces(), clip_value, gradients.device().index);
#endif
  }
  gradients.write_back();
}

}  // namespace adjoint::optim
