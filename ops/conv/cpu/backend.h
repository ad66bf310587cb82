// The trio of each CPU backend, in float32 and float64: operands are contiguous and have the geometry's shapes, the
// bias, the third operand of the first two, may be undefined, and results are written completely.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/geometry.h>

#include <functional>
#include <span>

namespace adjoint::cpu {

using TrioKernel = void (*)(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);

template <class T>
struct Backend {
  TrioKernel conv, conv_transpose, conv_weight;
};

/// gather.cpp and weight.cpp.
template <class T>
void vector_conv(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
template <class T>
void vector_conv_transpose(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);
template <class T>
void vector_conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry);

/// conv or conv_transpose with an already packed filter: it does not allocate.
using PreparedConv = std::function<void(std::span<const Tensor> in, Tensor& out)>;
template <class T>
PreparedConv prepare_vector_conv(std::span<const Tensor> in, const ConvGeometry& geometry, bool transposed);

/// eigen.cpp.
extern const Backend<float> eigen_float;
extern const Backend<double> eigen_double;

}  // namespace adjoint::cpu
