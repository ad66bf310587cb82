// Losses of pairs of elements, reduced or not, and their gradients, by device.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/loss/functors.h>
#include <adjoint/ops/loss/table.h>

#include <span>

namespace adjoint {

struct LossAttr {
  double parameter;  // the functor's
  double divisor;    // of the sum: 1, or the number of elements
  bool reduced;      // to a scalar

  double scale() const { return 1.0 / divisor; }  // of an element's gradient
};

}  // namespace adjoint

// All operands are contiguous.
// loss_value: in: x, y, of one shape; out: F's value of each pair, or their sum divided by attr.divisor.
// loss_gradient: in: g, x, y; out: F's gradient in x, or with kOfY in y, times attr.scale() * g, where g is a scalar if
// attr.reduced.

namespace adjoint::cpu {
template <template <class> class F>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
template <template <class> class F, bool kOfY>
void loss_gradient(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
template <template <class> class F>
void loss_value(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
template <template <class> class F, bool kOfY>
void loss_gradient(std::span<const Tensor> in, Tensor& out, const LossAttr& attr);
}  // namespace adjoint::cuda

#define ADJOINT_INSTANTIATE_Difference(F)                                               \
  template void loss_value<loss::F>(std::span<const Tensor>, Tensor&, const LossAttr&); \
  template void loss_gradient<loss::F, false>(std::span<const Tensor>, Tensor&, const LossAttr&);
#define ADJOINT_INSTANTIATE_Pair(F)                                                              \
  template void loss_gradient<loss::F, true>(std::span<const Tensor>, Tensor&, const LossAttr&); \
  ADJOINT_INSTANTIATE_Difference(F)
#define ADJOINT_INSTANTIATE_LOSS(Kind, F, ...) ADJOINT_INSTANTIATE_##Kind(F)
#define ADJOINT_INSTANTIATE_LOSSES                                                             \
  ADJOINT_LOSSES(ADJOINT_INSTANTIATE_LOSS, ADJOINT_INSTANTIATE_LOSS, ADJOINT_INSTANTIATE_LOSS) \
  ADJOINT_LOSSES_WITH_OPTIONS(ADJOINT_INSTANTIATE_LOSS)

namespace adjoint::loss {

/// g times F's derivative in x, or in y, as a functor; odd losses have one for both.
template <template <class> class F, class T, bool kOfY>
struct Gradient {
  F<T> f;
  template <class V>
  ADJOINT_HD V operator()(const V& g, const V& x, const V& y) const {
    if constexpr (!kOfY) {
      return f.gradient_x(g, x, y);
    } else {
      return f.gradient_y(g, x, y);
    }
  }
};

}  // namespace adjoint::loss
