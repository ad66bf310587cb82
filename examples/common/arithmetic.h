// --precision: how a training computes, and the update that follows from it.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/optim/optimizer.h>

#include <functional>
#include <string>
#include <vector>

namespace examples {

/// The values of --precision. tf32 rounds the operands of float32 products where a GPU does; CPUs compute float32.
/// bf16 is mixed precision: convolutions and products in bfloat16, losses and parameters in float32.
const std::vector<std::string>& precisions();

class Arithmetic {
 public:
  /// Sets this thread's float32 precision.
  explicit Arithmetic(const std::string& precision);

  /// One update of the optimiser's parameters against the gradient of loss(), a scalar, which a tape records. Gradients
  /// are zero before and after. Returns the loss, on its device and without waiting for it.
  adjoint::Tensor minimise(adjoint::optim::Optimizer& optimizer, const std::function<adjoint::Tensor()>& loss);

 private:
  bool bfloat16_;
};

}  // namespace examples
