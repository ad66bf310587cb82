#include "common/arithmetic.h"

#include <adjoint/core/autocast.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/tape.h>

namespace examples {

using adjoint::Tensor;

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> names{"float32", "tf32", "bf16"};
  return names;
}

Arithmetic::Arithmetic(const std::string& precision) : bfloat16_(precision == "bf16") {
  adjoint::set_float32_precision(precision == "float32" ? adjoint::Precision::kFull : adjoint::Precision::kTF32);
}

Tensor Arithmetic::minimise(adjoint::optim::Optimizer& optimizer, const std::function<Tensor()>& loss) {
  Tensor value;
  {
    adjoint::Tape tape;
    Tensor scalar;
    {
      const adjoint::AutocastGuard autocast(adjoint::kBFloat16, {.enabled = bfloat16_});
      scalar = loss();
    }
    tape.backward(scalar);
    value = scalar.detach();
  }
  optimizer.step();
  optimizer.zero_grad();
  return value;
}

}  // namespace examples
