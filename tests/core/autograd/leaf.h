// Leaves for the tests of the tape: short float64 vectors that require a gradient.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <vector>

namespace adjoint::testing {

using Values = std::vector<double>;

inline Tensor leaf(const Values& values) {
  return Tensor::from_vector<double>(values, {static_cast<std::int64_t>(values.size())},
                                     {.dtype = kFloat64, .requires_grad = true});
}
inline Values values(const Tensor& tensor) { return tensor.to_vector<double>(); }

}  // namespace adjoint::testing
