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

// `axes`: of a channel, the last ones.
Tensor of_channels(const char* op, const char* form, std::size_t axes, const Tensor& x, double p, bool training) {
  const OpScope scope(op);
  check_dropout(op, x, p);
  Shape channels = x.shape();
  const std::size_t rank = channels.size();
  ADJOINT_CHECK(rank == axes + 1 || rank == axes + 2, "{}: x must be {}; got {}", op, form, x.shape());
  for (std::size_t axis = rank - axes; axis < rank; ++axis) channels[axis] = 1;
  return training ? dropped(x, channels, p) : x;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  const OpScope scope("dropout");
  check_dropout("dropout", x, p);
  return training ? dropped(x, x.shape(), p) : x;
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  return of_channels("dropout2d", "(N, C, H, W) or (C, H, W)", 2, x, p, training);
}

Tensor dropout3d(const Tensor& x, double p, bool training) {
  return of_channels("dropout3d", "(N, C, D, H, W) or (C, D, H, W)", 3, x, p, training);
}

}  // namespace adjoint
