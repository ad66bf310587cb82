// Tensor's members that are functions of ops/.
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/ops/view/view.h>

namespace adjoint {

#define ADJOINT_MEMBER(NAME) \
  Tensor Tensor::NAME() const { return adjoint::NAME(*this); }
ADJOINT_MEMBER(exp2)
ADJOINT_MEMBER(frac)
ADJOINT_MEMBER(log10)
ADJOINT_MEMBER(neg)
ADJOINT_MEMBER(tanh)
ADJOINT_MEMBER(gelu)
ADJOINT_MEMBER(gelu_tanh)
ADJOINT_MEMBER(hardsigmoid)
ADJOINT_MEMBER(hardswish)
ADJOINT_MEMBER(logsigmoid)
ADJOINT_MEMBER(mish)
ADJOINT_MEMBER(relu)
ADJOINT_MEMBER(relu6)
ADJOINT_MEMBER(selu)
ADJOINT_MEMBER(sigmoid)
ADJOINT_MEMBER(silu)
ADJOINT_MEMBER(softsign)
ADJOINT_MEMBER(isfinite)
ADJOINT_MEMBER(isinf)
ADJOINT_MEMBER(isnan)
ADJOINT_MEMBER(logical_not)
#define ADJOINT_UNARY_MEMBER(Functor, function) ADJOINT_MEMBER(function)
ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_UNARY_MEMBER)
ADJOINT_STEP_FUNCTIONS(ADJOINT_UNARY_MEMBER)
#undef ADJOINT_UNARY_MEMBER
#undef ADJOINT_MEMBER

#define ADJOINT_OPERATOR(NAME, SIGN)                                          \
  Tensor Tensor::NAME(const Tensor& other) const { return *this SIGN other; } \
  Tensor Tensor::NAME(const Scalar& other) const { return *this SIGN other; }
ADJOINT_OPERATOR(mul, *)
ADJOINT_OPERATOR(div, /)
ADJOINT_OPERATOR(eq, ==)
ADJOINT_OPERATOR(ne, !=)
ADJOINT_OPERATOR(lt, <)
ADJOINT_OPERATOR(le, <=)
ADJOINT_OPERATOR(gt, >)
ADJOINT_OPERATOR(ge, >=)
#undef ADJOINT_OPERATOR
Tensor Tensor::add(const Scalar& other) const { return *this + other; }
Tensor Tensor::sub(const Scalar& other) const { return *this - other; }
Tensor Tensor::add(const Tensor& other, const Scalar& scale) const {
  return *this + (static_cast<double>(scale) == 1.0 ? other : other * scale);
}
Tensor Tensor::sub(const Tensor& other, const Scalar& scale) const {
  return *this - (static_cast<double>(scale) == 1.0 ? other : other * scale);
}

#define ADJOINT_BINARY(NAME, OTHER) \
  Tensor Tensor::NAME(OTHER other) const { return adjoint::NAME(*this, other); }
ADJOINT_BINARY(logical_and, const Tensor&)
ADJOINT_BINARY(logical_or, const Tensor&)
ADJOINT_BINARY(logical_xor, const Tensor&)
ADJOINT_BINARY(maximum, const Tensor&)
ADJOINT_BINARY(minimum, const Tensor&)
ADJOINT_BINARY(atan2, const Tensor&)
ADJOINT_BINARY(prelu, const Tensor&)
ADJOINT_BINARY(pow, const Tensor&)
ADJOINT_BINARY(pow, const Scalar&)
ADJOINT_BINARY(fmod, const Tensor&)
ADJOINT_BINARY(fmod, const Scalar&)
ADJOINT_BINARY(remainder, const Tensor&)
ADJOINT_BINARY(remainder, const Scalar&)
ADJOINT_BINARY(clamp_min, const Scalar&)
ADJOINT_BINARY(clamp_max, const Scalar&)
ADJOINT_BINARY(elu, double)
ADJOINT_BINARY(leaky_relu, double)
ADJOINT_BINARY(glu, std::int64_t)
ADJOINT_BINARY(take, const Tensor&)
ADJOINT_BINARY(tile, const Dims&)
ADJOINT_BINARY(count_nonzero, const Dims&)
ADJOINT_BINARY(mm, const Tensor&)
ADJOINT_BINARY(mv, const Tensor&)
ADJOINT_BINARY(dot, const Tensor&)
#undef ADJOINT_BINARY

Tensor Tensor::clamp(const Scalar& low, const Scalar& high) const { return adjoint::clamp(*this, low, high); }
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, double scale) const {
  return adjoint::addcmul(*this, a, b, scale);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, double scale) const {
  return adjoint::addcdiv(*this, a, b, scale);
}
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return adjoint::addmm(*this, a, b, beta, alpha);
}
Tensor Tensor::hardtanh(double min_val, double max_val) const { return adjoint::hardtanh(*this, min_val, max_val); }
Tensor Tensor::softplus(double beta, double threshold) const { return adjoint::softplus(*this, beta, threshold); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const { return adjoint::lerp(*this, end, weight); }
Tensor Tensor::lerp(const Tensor& end, double weight) const { return adjoint::lerp(*this, end, weight); }
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf) const {
  return adjoint::nan_to_num(*this, nan, posinf, neginf);
}
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  return adjoint::where(condition, *this, other);
}
Tensor Tensor::where(const Tensor& condition, const Scalar& other) const {
  return adjoint::where(condition, *this, other);
}
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
std::pair<Tensor, Tensor> Tensor::var_mean(const Dims& axes, std::int64_t correction, bool keepdim) const {
  return adjoint::var_mean(*this, axes, correction, keepdim);
}
std::pair<Tensor, Tensor> Tensor::std_mean(const Dims& axes, std::int64_t correction, bool keepdim) const {
  return adjoint::std_mean(*this, axes, correction, keepdim);
}
Tensor Tensor::max() const { return adjoint::max(*this); }
Tensor Tensor::min() const { return adjoint::min(*this); }
std::pair<Tensor, Tensor> Tensor::max(std::int64_t axis, bool keepdim) const {
  return adjoint::max(*this, axis, keepdim);
}
std::pair<Tensor, Tensor> Tensor::min(std::int64_t axis, bool keepdim) const {
  return adjoint::min(*this, axis, keepdim);
}
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
std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& split_sizes, std::int64_t axis) const {
  return adjoint::split(*this, split_sizes, axis);
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
Tensor Tensor::roll(std::int64_t shift, std::int64_t axis) const { return adjoint::roll(*this, shift, axis); }
Tensor Tensor::unflatten(std::int64_t axis, const Shape& sizes) const { return adjoint::unflatten(*this, axis, sizes); }
Tensor Tensor::index(const std::vector<Index>& indices) const { return adjoint::index(*this, indices); }
Tensor Tensor::index_select(std::int64_t axis, const Tensor& at) const {
  return adjoint::index_select(*this, axis, at);
}
Tensor Tensor::gather(std::int64_t axis, const Tensor& at) const { return adjoint::gather(*this, axis, at); }
Tensor Tensor::scatter(std::int64_t axis, const Tensor& at, const Tensor& src) const {
  return adjoint::scatter(*this, axis, at, src);
}
Tensor Tensor::scatter(std::int64_t axis, const Tensor& at, double value) const {
  return adjoint::scatter(*this, axis, at, value);
}
Tensor Tensor::scatter_add(std::int64_t axis, const Tensor& at, const Tensor& src) const {
  return adjoint::scatter_add(*this, axis, at, src);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return adjoint::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return adjoint::nonzero(*this); }
Tensor Tensor::matmul(const Tensor& other) const { return adjoint::matmul(*this, other); }

}  // namespace adjoint
