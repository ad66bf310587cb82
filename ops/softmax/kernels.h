// softmax and its gradient by device, along the middle axis of contiguous operands that are seen as (outer, extent,
// inner).
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

namespace adjoint {

struct SoftmaxAttr {
  std::int64_t outer, extent, inner;
  bool log;
  std::optional<DType> narrow = {};  // x's 16-bit dtype, if the result is float32
};

/// log_softmax of 16-bit types, in float32: the bits of log_softmax(widened(x)), but reads x and writes its gradient in
/// x's dtype.
Tensor widened_log_softmax(const Tensor& x, std::int64_t axis);

/// f<T, R>() for the dtypes of x and of the result.
template <class F>
void visit_softmax(DType x, DType result, F&& f) {
  visit_floating(x, [&]<class T>() {
    if constexpr (!std::is_same_v<T, compute_t<T>>) {
      if (result != x) return f.template operator()<T, compute_t<T>>();
    }
    f.template operator()<T, T>();
  });
}

}  // namespace adjoint

// softmax: in: x; out: the result. softmax_gradient: in: the result's gradient, the result; out: x's gradient. All have
// one shape. The result and its gradient have one dtype; x and its gradient have the same dtype, or attr.narrow if that
// is set.
namespace adjoint::cpu {
void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void softmax(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
void softmax_gradient(std::span<const Tensor> in, Tensor& out, const SoftmaxAttr& attr);
}  // namespace adjoint::cuda
