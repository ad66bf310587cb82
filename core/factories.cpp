// Tensors of constants, of random numbers, and like others.
#include <adjoint/core/tensor.h>

#include <adjoint/core/check.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/random.h>
#include <adjoint/core/scalar.h>
#include <adjoint/core/tensor_impl.h>

#include <algorithm>
#include <cmath>

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
