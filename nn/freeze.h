// freeze: weights that will not change, so that convolutions put them into their kernels' order once, not in each call.
//
//   net.eval();
//   nn::Frozen frozen = nn::freeze(net);
//   for (const Tensor& x : requests) answer(net(x));
//   frozen.unfreeze();  // or at the end of its life
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace adjoint::detail {
class KeptForms;
}

namespace adjoint::nn {

class Module;

/// Keeps parameters frozen while it lives. Of several that share a parameter, each keeps it so.
class ADJOINT_API Frozen {
 public:
  Frozen() = default;
  Frozen(Frozen&& other) noexcept;
  Frozen& operator=(Frozen&& other) noexcept;
  ~Frozen();

  /// The parameters can be written again, and what was kept of them is released. Not while another thread computes with
  /// them.
  void unfreeze();
  /// Bytes of what is kept now, on whichever devices.
  std::size_t kept_bytes() const;

 private:
  struct Parameter {
    Tensor tensor;
    std::shared_ptr<adjoint::detail::KeptForms> forms;  // which its storage holds too
  };
  friend ADJOINT_API Frozen freeze(const Module& module);

  std::vector<Parameter> parameters_;
};

/// Freezes the elements of every parameter of `module`. Results keep their bits. A convolution or transposed
/// convolution whose kernel packs its filter, or copies it into another order, then does so in the first call of its
/// shapes on a stream, and keeps what it made: up to eight such forms of a filter, each about as large as the filter,
/// in float32 up to twice; in later calls of other shapes it packs as ever. Calls that a CUDA graph captures pack as
/// ever too, and so do filters that are made anew in each call: by casts (autocast.h) and reparametrisations
/// (reparametrize.h), and those of half precision on the CPU.
///
/// While it lasts, whatever writes to a parameter through a tensor throws Error, optimisers and load_state_dict among
/// it, and so does Module::to. What writes through a pointer that was taken before is not seen: results are those of
/// the elements before. A clone() is not frozen. A parameter that is assigned is not frozen either.
///
/// Throws Error where `module`, or one below it, is in training mode.
[[nodiscard]] ADJOINT_API Frozen freeze(const Module& module);

}  // namespace adjoint::nn
