#include <adjoint/ops/signal/window.h>

#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>

#include <numbers>

namespace adjoint {
namespace {

// constant - first cos(2 pi k / P) + second cos(4 pi k / P), computed on the device itself, so that nothing waits for a
// copy.
Tensor cosine_window(const char* name, std::int64_t length, bool periodic, const TensorOptions& options,
                     double constant, double first, double second = 0.0) {
  const OpScope scope(name);
  ADJOINT_CHECK(length >= 0, "{}: length must not be negative; got {}", name, length);
  const DType dtype = options.dtype.value_or(kFloat32);
  ADJOINT_CHECK(is_floating_point(dtype), "{}: the dtype must be floating point; got {}", name, dtype);
  if (length < 2) return Tensor::ones({length}, options);
  const auto period = static_cast<double>(periodic ? length : length - 1);
  const Tensor k = Tensor::arange(0, static_cast<double>(length), 1, {.dtype = kFloat64, .device = options.device});
  Tensor window = constant - first * cos(k * (2 * std::numbers::pi / period));
  if (second != 0.0) window = window + second * cos(k * (4 * std::numbers::pi / period));
  return window.to(dtype).requires_grad_(options.requires_grad);
}

}  // namespace

Tensor hann_window(std::int64_t length, bool periodic, const TensorOptions& options) {
  return cosine_window("hann_window", length, periodic, options, 0.5, 0.5);
}

Tensor hamming_window(std::int64_t length, bool periodic, double alpha, double beta, const TensorOptions& options) {
  return cosine_window("hamming_window", length, periodic, options, alpha, beta);
}

Tensor blackman_window(std::int64_t length, bool periodic, const TensorOptions& options) {
  return cosine_window("blackman_window", length, periodic, options, 0.42, 0.5, 0.08);
}

}  // namespace adjoint
