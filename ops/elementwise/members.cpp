// Tensor's members that are elementwise functions.
#include <adjoint/ops/elementwise/elementwise.h>

namespace adjoint {

#define ADJOINT_MEMBER(NAME) \
  Tensor Tensor::NAME() const { return adjoint::NAME(*this); }
ADJOINT_MEMBER(abs)
ADJOINT_MEMBER(acos)
ADJOINT_MEMBER(asin)
ADJOINT_MEMBER(atan)
ADJOINT_MEMBER(ceil)
ADJOINT_MEMBER(cos)
ADJOINT_MEMBER(cosh)
ADJOINT_MEMBER(erf)
ADJOINT_MEMBER(exp)
ADJOINT_MEMBER(expm1)
ADJOINT_MEMBER(floor)
ADJOINT_MEMBER(log)
ADJOINT_MEMBER(log1p)
ADJOINT_MEMBER(log2)
ADJOINT_MEMBER(reciprocal)
ADJOINT_MEMBER(relu)
ADJOINT_MEMBER(round)
ADJOINT_MEMBER(rsqrt)
ADJOINT_MEMBER(sigmoid)
ADJOINT_MEMBER(sign)
ADJOINT_MEMBER(sin)
ADJOINT_MEMBER(sinh)
ADJOINT_MEMBER(sqrt)
ADJOINT_MEMBER(square)
ADJOINT_MEMBER(tan)
ADJOINT_MEMBER(tanh)
ADJOINT_MEMBER(trunc)
ADJOINT_MEMBER(isfinite)
ADJOINT_MEMBER(isinf)
ADJOINT_MEMBER(isnan)
ADJOINT_MEMBER(logical_not)
#undef ADJOINT_MEMBER

Tensor Tensor::clamp(double low, double high) const { return adjoint::clamp(*this, low, high); }
Tensor Tensor::pow(double exponent) const { return adjoint::pow(*this, exponent); }
Tensor Tensor::pow(const Tensor& exponent) const { return adjoint::pow(*this, exponent); }
Tensor Tensor::masked_fill(const Tensor& mask, double value) const { return adjoint::masked_fill(*this, mask, value); }

}  // namespace adjoint
