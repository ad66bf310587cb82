#include <adjoint/nn/module.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/join/join.h>

namespace adjoint::nn {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  const OpScope scope("parameters_to_vector");
  std::vector<Tensor> flat;
  for (const Tensor& parameter : parameters) {
    check_defined("parameters_to_vector", "each parameter", parameter);
    flat.push_back(parameter.flatten());
  }
  return cat(flat);
}

void vector_to_parameters(const Tensor& vector, std::vector<Tensor> parameters) {
  constexpr const char* kOp = "vector_to_parameters";
  const OpScope scope(kOp);
  check_defined(kOp, "vector", vector);
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters) {
    check_defined(kOp, "each parameter", parameter);
    ADJOINT_CHECK(parameter.dtype() == vector.dtype() && parameter.device() == vector.device(),
                  "{}: the vector must have the parameters' dtype and device; got {} on {} for {} on {}", kOp,
                  vector.dtype(), vector.device(), parameter.dtype(), parameter.device());
    check_writable(kOp, parameter);
    count += parameter.numel();
  }
  ADJOINT_CHECK(vector.dim() == 1 && vector.numel() == count,
                "{}: the vector must have an element for each of the parameters' {}; got shape {}", kOp, count,
                vector.shape());
  const PauseTape pause;
  std::int64_t at = 0;
  for (Tensor& parameter : parameters) {
    parameter.copy_(vector.narrow(0, at, parameter.numel()).reshape(parameter.shape()));
    at += parameter.numel();
  }
}

}  // namespace adjoint::nn
