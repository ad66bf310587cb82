#include <adjoint/nn/onnx/operators.h>

#include <array>

namespace adjoint::nn::detail {
namespace {

constexpr std::array<OnnxOperator, 0> kReduceOperators{};

}  // namespace

std::span<const OnnxOperator> onnx_reduce_operators() { return kReduceOperators; }

}  // namespace adjoint::nn::detail
