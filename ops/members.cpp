// Tensor's members that are functions of ops/.
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/ops/view/view.h>

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

#define ADJOINT_REDUCTION(NAME) \
  Tensor Tensor::NAME(const Dims& axes, bool keepdim) const { return adjoint::NAME(*this, axes, keepdim); }
ADJOINT_REDUCTION(prod)
ADJOINT_REDUCTION(logsumexp)
ADJOINT_REDUCTION(amax)
ADJOINT_REDUCTION(amin)
ADJOINT_REDUCTION(any)
ADJOINT_REDUCTION(all)
#undef ADJOINT_REDUCTION
Tensor Tensor::norm(double p, const Dims& axes, bool keepdim) const { return adjoint::norm(*this, p, axes, keepdim); }
Tensor Tensor::var(const Dims& axes, std::int64_t correction, bool keepdim) const {
  return adjoint::var(*this, axes, correction, keepdim);
}
Tensor Tensor::std(const Dims& axes, std::int64_t correction, bool keepdim) const {
  return adjoint::std(*this, axes, correction, keepdim);
}
Tensor Tensor::min() const { return adjoint::min(*this); }
Tensor Tensor::argmax() const { return adjoint::argmax(*this); }
Tensor Tensor::argmin() const { return adjoint::argmin(*this); }
Tensor Tensor::argmax(std::int64_t axis, bool keepdim) const { return adjoint::argmax(*this, axis, keepdim); }
Tensor Tensor::argmin(std::int64_t axis, bool keepdim) const { return adjoint::argmin(*this, axis, keepdim); }
Tensor Tensor::softmax(std::int64_t axis) const { return adjoint::softmax(*this, axis); }
Tensor Tensor::log_softmax(std::int64_t axis) const { return adjoint::log_softmax(*this, axis); }
Tensor Tensor::cumsum(std::int64_t axis) const { return adjoint::cumsum(*this, axis); }

std::vector<Tensor> Tensor::split(std::int64_t split_size, std::int64_t axis) const {
  return adjoint::split(*this, split_size, axis);
}
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t axis) const {
  return adjoint::chunk(*this, chunks, axis);
}
std::vector<Tensor> Tensor::unbind(std::int64_t axis) const { return adjoint::unbind(*this, axis); }
Tensor Tensor::repeat(const Dims& repeats) const { return adjoint::repeat(*this, repeats); }
Tensor Tensor::flip(const Dims& axes) const { return adjoint::flip(*this, axes); }
Tensor Tensor::movedim(const Dims& source, const Dims& destination) const {
  return adjoint::movedim(*this, source, destination);
}
Tensor Tensor::unflatten(std::int64_t axis, const Shape& sizes) const { return adjoint::unflatten(*this, axis, sizes); }
Tensor Tensor::index(const std::vector<Index>& indices) const { return adjoint::index(*this, indices); }
Tensor Tensor::index_select(std::int64_t axis, const Tensor& at) const {
  return adjoint::index_select(*this, axis, at);
}
Tensor Tensor::gather(std::int64_t axis, const Tensor& at) const { return adjoint::gather(*this, axis, at); }
Tensor Tensor::matmul(const Tensor& other) const { return adjoint::matmul(*this, other); }

}  // namespace adjoint
