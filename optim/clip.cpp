#include <adjoint/optim/clip.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/optim/clip_kernels.h>

#include <cmath>
#include <unordered_set>

namespace adjoint::optim {
namespace {

// The gradients that there are, as contiguous pieces of one device. What other tensors may share, a recorded gradient
// or one that stands in two places, is not written to: a copy takes its place. Those of other strides are worked on as
// copies, which go back at the end.
class Gradients {
 public:
  Gradients(const char* op, const std::vector<Tensor>& parameters) {
    std::unordered_set<const void*> seen;
    for (const Tensor& parameter : parameters) {
      check_defined(op, "parameter", parameter);
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (entries_.empty()) device_ = gradient.device();
      ADJOINT_CHECK(gradient.device() == device_, "{}: gradients must be on one device; got {} and {}", op, device_,
                    gradient.device());
      const TensorImpl& impl = *gradient.impl();
      const bool shared = impl.recorded() || impl.views_recorded || overlaps_itself(gradient) ||
                          !seen.insert(gradient.raw_data()).second;
      if (!shared) check_writable(op, gradient);
      entries_.push_back({parameter, gradient, {}, shared});
    }
    for (Entry& entry : entries_) {
      entry.packed = entry.shared ? entry.gradient.clone() : contiguous_copy(entry.gradient);
      if (entry.packed.numel() == 0) continue;
      pieces_.push_back({const_cast<void*>(entry.packed.raw_data()), entry.packed.numel(), entry.packed.dtype()});
    }
  }

  Device device() const { return device_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  // write(pieces) is let loose on the elements. Allocates nothing, so that all are written or none.
  template <class Write>
  void rewrite(const Write& write) {
    if (device_.is_cpu()) detail::prepare_threads();
    for (Entry& entry : entries_) entry.packed.raw_mutable_data();  // counts the write
    write(pieces_);
    for (Entry& entry : entries_) {
      if (entry.shared) {
        entry.parameter.set_grad(entry.packed);
      } else if (entry.packed.impl() != entry.gradient.impl()) {
        copy_into(entry.packed, entry.gradient);
      }
    }
  }

 private:
  struct Entry {
    Tensor parameter;
    Tensor gradient;
    Tensor packed;
    bool shared;
  };

  Device device_ = kCPU;
  std::vector<Entry> entries_;
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
