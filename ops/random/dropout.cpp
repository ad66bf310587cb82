#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/random/random.h>

namespace adjoint {
namespace {

void check_dropout(const char* op, const Tensor& x, double p) {
  check_defined(op, "x", x);
  ADJOINT_CHECK(p >= 0.0 && p <= 1.0, "{}: p must be between 0 and 1; got {} for x {}", op, p, x.shape());
}

// `shape` broadcasts to x's: elements that share one of its elements become 0 together.
Tensor dropped(const Tensor& x, const Shape& shape, double p) {
  if (p == 0.0) return x;
  const bool all = p == 1.0;
  const Tensor kept = all ? Tensor::zeros(Shape{}, {.dtype = kBool, .device = x.device()})
                          : Tensor::rand(shape, {.device = x.device()}) >= p;
  const Tensor chosen = where(kept, x, Tensor::zeros(Shape{}, x.options()));
  return all ? chosen : (widened(chosen) * (1.0 / (1.0 - p))).to(x.dtype());
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  const OpScope scope("dropout");
  check_dropout("dropout", x, p);
  return training ? dropped(x, x.shape(), p) : x;
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  const OpScope scope("dropout2d");
  check_dropout("dropout2d", x, p);
  ADJOINT_CHECK(x.dim() == 3 || x.dim() == 4, "dropout2d: x must be (N, C, H, W) or (C, H, W); got {}", x.shape());
  Shape channels = x.shape();
  for (std::size_t axis = channels.size() - 2; axis < channels.size(); ++axis) channels[axis] = 1;
  return training ? dropped(x, channels, p) : x;
}

}  // namespace adjoint
