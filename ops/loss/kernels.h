// Losses of the form scale * sum of term(input - target), and their gradients, by device.
#pragma once

#include <adjoint/core/dtype.h>
#include <adjoint/core/tensor.h>

#include <span>

namespace adjoint {

struct LossAttr {
  double scale;  // of every term: 1, or one over the number of elements
  bool reduced;  // to a scalar
};

namespace loss {

/// d^2. slope(d, g) is g times the derivative.
struct Squared {
  template <class T>
  static ADJOINT_HD T value(T d) {
    return d * d;
  }
  template <class T>
  static ADJOINT_HD T slope(T d, T g) {
    return g * (d + d);
  }
};

/// |d|. A NaN stays one, in the slope too; at 0 an infinite g stops.
struct Absolute {
  template <class T>
  static ADJOINT_HD T value(T d) {
    return d < T(0) ? -d : d;
  }
  template <class T>
  static ADJOINT_HD T slope(T d, T g) {
    return d > T(0) ? g : d < T(0) ? -g : d;
  }
};

}  // namespace loss

// in: a, b, of one shape; out: scale * term(a - b), summed where attr.reduced.
// in: a, b, g; out: slope(a - b, scale * g), where g is a scalar if attr.reduced. All contiguous.

namespace cpu {
template <class Term>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
template <class Term>
void loss_slope(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
}  // namespace cpu

namespace cuda {
template <class Term>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
template <class Term>
void loss_slope(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
}  // namespace cuda

}  // namespace adjoint

#define ADJOINT_INSTANTIATE_LOSSES                                                             \
  template void loss_value<loss::Squared>(std::span<const Tensor>, Tensor&, const LossAttr&);  \
  template void loss_value<loss::Absolute>(std::span<const Tensor>, Tensor&, const LossAttr&); \
  template void loss_slope<loss::Squared>(std::span<const Tensor>, Tensor&, const LossAttr&);  \
  template void loss_slope<loss::Absolute>(std::span<const Tensor>, Tensor&, const LossAttr&);
