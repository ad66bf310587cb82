// --precision: how a training computes, and the update that follows from it.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/optim/grad_scaler.h>
#include <adjoint/optim/optimizer.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// The values of --precision. tf32 rounds the operands of float32 products on GPUs that do so; CPUs compute float32.
/// bf16 and fp16 are mixed precision: convolutions and products in 16 bits, losses and parameters in float32. With fp16
/// an optim::GradScaler for each optimiser keeps gradients in range, and skips updates with an infinite gradient.
const std::vector<std::string>& precisions();

class Arithmetic {
 public:
  /// Sets this thread's float32 precision.
  explicit Arithmetic(const std::string& precision);
  Arithmetic(const Arithmetic&) = delete;  // optimisers have a scaler here
  Arithmetic& operator=(const Arithmetic&) = delete;

  /// One update of the optimiser's parameters against the gradient of loss(), a scalar, which a tape records. Gradients
  /// are zero before and after. Returns the loss, on its device and without waiting for it.
  adjoint::Tensor minimise(adjoint::optim::Optimizer& optimizer, const std::function<adjoint::Tensor()>& loss,
                           const adjoint::optim::StepOptions& options = {});

  /// The scalers' state, in the order in which their optimisers were first passed to minimise(); that order must be the
  /// same in every run. Empty except for fp16.
  adjoint::NamedTensors state_dict() const;
  void load_state_dict(const adjoint::NamedTensors& state);

 private:
  using Scaler = std::pair<const adjoint::optim::Optimizer*, adjoint::optim::GradScaler>;  // null: not yet known
  adjoint::optim::GradScaler& scaler_of(const adjoint::optim::Optimizer& optimizer);

  std::optional<adjoint::DType> half_;  // of mixed precision
  std::list<Scaler> scalers_;
};

}  // namespace examples
