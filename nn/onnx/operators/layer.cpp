#include <adjoint/nn/onnx/operators.h>

#include <array>

namespace adjoint::nn::detail {
namespace {

constexpr std::array<OnnxOperator, 0> kLayerOperators{};

}  // namespace

std::span<const OnnxOperator> onnx_layer_operators() { return kLayerOperators; }

}  // namespace adjoint::nn::detail
