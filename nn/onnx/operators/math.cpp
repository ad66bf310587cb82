// ONNX's operators on elements.
#include <adjoint/nn/onnx/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>

namespace adjoint::nn::detail {
namespace {

constexpr OnnxOperator kMathOperators[] = {
    {.type = "Abs", .run = [](const OnnxArgs& x) -> OnnxResults { return {abs(x[0])}; }},
    {.type = "Add", .run = [](const OnnxArgs& x) -> OnnxResults { return {x[0] + x[1]}; }},
    {.type = "LeakyRelu",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {leaky_relu(x[0], x.number("alpha", 0.01))}; },
     .attributes = "alpha"},
};

}  // namespace

std::span<const OnnxOperator> onnx_math_operators() { return kMathOperators; }

}  // namespace adjoint::nn::detail
