// The tape adds gradients with these, which no reader of files does: in place of ops/elementwise.
#include "check.h"

#include <adjoint/core/tensor.h>

namespace adjoint {

Tensor operator+(const Tensor& a, const Tensor&) {
  fuzz::check(false, "a reader adds tensors");
  return a;
}

Tensor& Tensor::add_(const Tensor&, double) {
  fuzz::check(false, "a reader adds tensors");
  return *this;
}

}  // namespace adjoint
