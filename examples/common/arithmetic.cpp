#include "common/arithmetic.h"

#include <adjoint/core/precision.h>
#include <adjoint/core/tape.h>

namespace examples {

using adjoint::Tensor;

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> names{"float32", "tf32"};
  return names;
}

Arithmetic::Arithmetic(const std::string& precision) {
  adjoint::set_float32_precision(precision == "float32" ? adjoint::Precision::kFull : adjoint::Precision::kTF32);
}

Tensor Arithmetic::minimise(adjoint::optim::Optimizer& optimizer, const std::function<Tensor()>& loss) {
  Tensor value;
  {
    adjoint::Tape tape;
    const Tensor scalar = loss();
    tape.backward(scalar);
    value = scalar.detach();
  }
  optimizer.step();
  optimizer.zero_grad();
  return value;
}

}  // namespace examples
