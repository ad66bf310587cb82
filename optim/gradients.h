// The gradients of parameters, for changes in place. Internal to optim.
#pragma once

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/optim/clip_kernels.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace adjoint::optim {

// The existing gradients, as contiguous pieces of one device. Gradients that other tensors may share (recorded ones, or
// ones in two places) are not written to: a copy takes their place. Gradients with other strides are changed as copies,
// which are written back at the end.
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

  // Calls write(pieces) on the elements. Allocates nothing, so either all are written or none.
  template <class Write>
  void rewrite(const Write& write) {
    if (device_.is_cpu()) adjoint::detail::prepare_threads();
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

}  // namespace adjoint::optim
