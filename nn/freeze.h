// freeze: promises that weights will not change, so that convolutions pack them into their kernels' order once, not in
// each call.
//
//   net.eval();
//   nn::Frozen frozen = nn::freeze(net);
//   for (const Tensor& x : requests) answer(net(x));
//   frozen.unfreeze();  // or at the end of its life
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace adjoint::detail {
class KeptForms;
}

namespace adjoint::nn {

class Module;

/// Keeps parameters frozen while it lives. A parameter that several Frozen share stays frozen until the last one ends.
class ADJOINT_API Frozen {
 public:
  Frozen() = default;
  Frozen(Frozen&& other) noexcept;
  Frozen& operator=(Frozen&& other) noexcept;
  ~Frozen();

  /// Makes the parameters writable again, and releases their packed forms. No other thread may compute with them
  /// meanwhile.
  void unfreeze();
  /// Bytes of the forms kept now, on all devices.
  std::size_t kept_bytes() const;

 private:
  struct Parameter {
    Tensor tensor;
    std::shared_ptr<adjoint::detail::KeptForms> forms;  // shared with its storage
  };
  friend ADJOINT_API Frozen freeze(const std::vector<Tensor>& tensors);

  std::vector<Parameter> parameters_;
};

/// Freezes the elements of every parameter of `module`. Results keep their bits. A convolution or transposed
/// convolution whose kernel packs or reorders its filter then packs it only in the first call of its shapes on a
/// stream, and keeps the packed form: up to eight forms of a filter, each about as large as the filter, or twice as
/// large in float32; later calls of other shapes pack as usual. Calls that a CUDA graph captures also pack as usual,
/// and so do filters that each call recomputes: by casts (autocast.h) and reparametrisations (reparametrize.h), and
/// those of half precision on the CPU.
///
/// Meanwhile every write to a parameter through a tensor throws Error, also in optimisers and load_state_dict, and so
/// does Module::to. Writes through a pointer from before go unnoticed, and results use the old elements. A clone() is
/// not frozen, nor is a newly assigned parameter.
///
/// Throws Error if `module`, or one below it, is in training mode.
[[nodiscard]] ADJOINT_API Frozen freeze(const Module& module);
/// The same for tensors of any origin.
[[nodiscard]] ADJOINT_API Frozen freeze(const std::vector<Tensor>& tensors);

}  // namespace adjoint::nn
