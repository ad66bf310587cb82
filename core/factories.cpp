// Tensors of constants, of random numbers, and like others.
#include <adjoint/core/factories.h>

#include <adjoint/core/check.h>
#include <adjoint/core/convert.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/random.h>
#include <adjoint/core/scalar.h>
#include <adjoint/core/tensor_impl.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace adjoint {

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("empty");
  Tensor tensor = make_tensor({shape, options.dtype}, options.device);
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, const TensorOptions& options) {
  const OpScope scope("full");
  const double fitting = fit_scalar("full", value, options.dtype, shape);
  Tensor tensor = empty(shape, options);
  fill(tensor, fitting);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("zeros");
  return full(shape, 0.0, options);
}

Tensor Tensor::ones(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("ones");
  return full(shape, 1.0, options);
}

Tensor Tensor::scalar(double value, const TensorOptions& options) {
  const OpScope scope("scalar");
  return full(Shape{}, value, options);
}

Tensor Tensor::rand(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("rand");
  check_floating("rand", options.dtype);
  Tensor tensor = empty(shape, options);
  draw_uniform(tensor, 0.0, 1.0, default_generator());
  return tensor;
}

Tensor Tensor::randn(const Shape& shape, const TensorOptions& options) {
  const OpScope scope("randn");
  check_floating("randn", options.dtype);
  Tensor tensor = empty(shape, options);
  draw_normal(tensor, 0.0, 1.0, default_generator());
  return tensor;
}

Tensor Tensor::arange(double start, double end, double step, const TensorOptions& options) {
  const OpScope scope("arange");
  ADJOINT_CHECK(step != 0.0 && std::isfinite(start) && std::isfinite(end) && std::isfinite(step),
                "arange: start, end and step must be finite and step not 0; got {}, {}, {}", start, end, step);
  const double count = std::max(0.0, std::ceil((end - start) / step));
  ADJOINT_CHECK(count < 0x1p62, "arange: the number of elements must fit in 63 bits; got {}, {}, {}", start, end, step);
  const Shape shape{static_cast<std::int64_t>(count)};
  // Where the ends and one step are whole and in range, everything between is.
  for (const double i : {0.0, 1.0, count - 1.0}) {
    if (i >= 0.0 && i < count) fit_scalar("arange", std::fma(i, step, start), options.dtype, shape);
  }
  Tensor tensor = empty(shape, options);
  fill_arange(tensor, start, step);
  return tensor;
}

Tensor Tensor::eye(std::int64_t n, const TensorOptions& options) {
  const OpScope scope("eye");
  Tensor tensor = zeros({n, n}, options);
  if (n > 0) {
    Tensor diagonal = tensor.view_as({n}, {n + 1}, 0);
    fill(diagonal, 1.0);
  }
  return tensor;
}

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  const OpScope scope("linspace");
  ADJOINT_CHECK(steps >= 0 && std::isfinite(end - start),
                "linspace: steps must not be negative, and the ends and their distance must be finite; got {} steps "
                "from {} to {}",
                steps, start, end);
  const Shape shape{steps};
  for (const double value : {start, end}) fit_scalar("linspace", value, options.dtype, shape);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  if (steps > 2) fit_scalar("linspace", start + step, options.dtype, shape);
  Tensor tensor = Tensor::empty(shape, options);
  fill_arange(tensor, start, step);
  if (steps > 1) {  // exactly, whatever the steps before add up to
    Tensor last = tensor.view_as({1}, {1}, steps - 1);
    fill(last, end);
  }
  return tensor;
}

namespace {

void check_holds(const char* op, std::int64_t value, DType dtype) {
  const bool held = dtype != kBool && visit(dtype, [value]<class T>() { return holds<T>(value); });
  ADJOINT_CHECK(held, "{}: the dtype must be a number's that can hold every element; got {} for {}", op, dtype, value);
}

}  // namespace

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, const TensorOptions& options) {
  const OpScope scope("randint");
  ADJOINT_CHECK(low < high, "randint: low must be below high; got {} and {} for shape {}", low, high, shape);
  check_holds("randint", low, options.dtype);
  check_holds("randint", high - 1, options.dtype);
  Tensor tensor = Tensor::empty(shape, options);
  draw_integers(tensor, low, high, default_generator());
  return tensor;
}

Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options) {
  return randint(0, high, shape, options);
}

Tensor randperm(std::int64_t n, const TensorOptions& options) {
  const OpScope scope("randperm");
  ADJOINT_CHECK(n >= 0, "randperm: n must not be negative; got {}", n);
  check_holds("randperm", std::max<std::int64_t>(n - 1, 0), options.dtype);
  Tensor numbers = Tensor::arange(0.0, static_cast<double>(n), 1.0, {.dtype = kInt64});
  auto* const data = numbers.mutable_data<std::int64_t>();
  Generator& generator = default_generator();
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(data[i], data[static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(i) + 1))]);
  }
  Tensor result = numbers.to(options.dtype).to(options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

// A factory checks the rest.
#define ADJOINT_LIKE(name, ...)         \
  const OpScope scope(#name "_like");   \
  check_defined(#name "_like", "x", x); \
  return Tensor::name(x.shape(), __VA_ARGS__ x.options())

Tensor zeros_like(const Tensor& x) { ADJOINT_LIKE(zeros, ); }
Tensor ones_like(const Tensor& x) { ADJOINT_LIKE(ones, ); }
Tensor empty_like(const Tensor& x) { ADJOINT_LIKE(empty, ); }
Tensor rand_like(const Tensor& x) { ADJOINT_LIKE(rand, ); }
Tensor randn_like(const Tensor& x) { ADJOINT_LIKE(randn, ); }
Tensor full_like(const Tensor& x, double value) { ADJOINT_LIKE(full, value, ); }
#undef ADJOINT_LIKE

}  // namespace adjoint
