// Tensor's elementwise functions in place: each writes the result of the function without `_` into the tensor.
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/random/random.h>

#include <array>
#include <span>

namespace adjoint {
namespace {

// Writes f(x) over x. Throws Error if x must not be written, and if f returns another dtype.
template <class F>
Tensor& overwrite(const char* op, Tensor& x, std::span<const Tensor> sources, const F& f) {
  const OpScope scope(op);
  check_writable(op, x, sources);
  const detail::HiddenTape hidden;
  const Tensor result = f(x);
  ADJOINT_CHECK(result.dtype() == x.dtype(),
                "{}: the result must have the tensor's dtype; got {} for a tensor of {}; convert the tensor first", op,
                result.dtype(), x.dtype());
  return x.copy_(result);
}

}  // namespace

#define ADJOINT_IN_PLACE(NAME)                                                                \
  Tensor& Tensor::NAME##_() {                                                                 \
    return overwrite(#NAME "_", *this, {}, [](const Tensor& x) { return adjoint::NAME(x); }); \
  }
ADJOINT_IN_PLACE(abs)
ADJOINT_IN_PLACE(ceil)
ADJOINT_IN_PLACE(cos)
ADJOINT_IN_PLACE(exp)
ADJOINT_IN_PLACE(floor)
ADJOINT_IN_PLACE(log)
ADJOINT_IN_PLACE(neg)
ADJOINT_IN_PLACE(reciprocal)
ADJOINT_IN_PLACE(relu)
ADJOINT_IN_PLACE(round)
ADJOINT_IN_PLACE(rsqrt)
ADJOINT_IN_PLACE(sigmoid)
ADJOINT_IN_PLACE(sign)
ADJOINT_IN_PLACE(sin)
ADJOINT_IN_PLACE(sqrt)
ADJOINT_IN_PLACE(square)
ADJOINT_IN_PLACE(tanh)
ADJOINT_IN_PLACE(trunc)
#undef ADJOINT_IN_PLACE

Tensor& Tensor::pow_(const Scalar& exponent) {
  return overwrite("pow_", *this, {}, [&](const Tensor& x) { return adjoint::pow(x, exponent); });
}
Tensor& Tensor::masked_fill_(const Tensor& mask, double value) {
  return overwrite("masked_fill_", *this, {}, [&](const Tensor& x) { return adjoint::masked_fill(x, mask, value); });
}
Tensor& Tensor::scatter_(std::int64_t axis, const Tensor& at, const Tensor& src) {
  return overwrite("scatter_", *this, {&src, 1}, [&](const Tensor& x) { return adjoint::scatter(x, axis, at, src); });
}
Tensor& Tensor::scatter_(std::int64_t axis, const Tensor& at, double value) {
  return overwrite("scatter_", *this, {}, [&](const Tensor& x) { return adjoint::scatter(x, axis, at, value); });
}
Tensor& Tensor::scatter_add_(std::int64_t axis, const Tensor& at, const Tensor& src) {
  return overwrite("scatter_add_", *this, {&src, 1},
                   [&](const Tensor& x) { return adjoint::scatter_add(x, axis, at, src); });
}
Tensor& Tensor::index_fill_(std::int64_t axis, const Tensor& at, double value) {
  const OpScope scope("index_fill_");
  check_defined("index_fill_", "tensor", *this);
  std::vector<Index> places(resolve_axis("index_fill_", axis, shape().size()), Slice());
  places.emplace_back(at);
  return index_put_(*this, places, value);
}

Tensor& Tensor::bernoulli_(double p) {
  return overwrite("bernoulli_", *this, {}, [&](const Tensor& x) { return bernoulli(x, p); });
}
Tensor& Tensor::random_(std::int64_t low, std::int64_t high) {
  return overwrite("random_", *this, {}, [&](const Tensor& x) { return randint(low, high, x.shape(), x.options()); });
}
Tensor& Tensor::exponential_(double rate) {
  const OpScope scope("exponential_");
  ADJOINT_CHECK(rate > 0.0, "exponential_: the rate must be positive; got {}", rate);
  return overwrite("exponential_", *this, {},
                   [&](const Tensor& x) { return adjoint::log1p(-Tensor::rand(x.shape(), x.options())) / -rate; });
}

}  // namespace adjoint
