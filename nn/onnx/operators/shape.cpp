// ONNX's operators that move elements and compute shapes.
#include <adjoint/nn/onnx/operators.h>
#include <adjoint/ops/view/view.h>

namespace adjoint::nn::detail {
namespace {

OnnxResults reshaped(const OnnxArgs& x) {
  std::vector<std::int64_t> shape = x.host_integers(1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 0 || x.integer("allowzero", 0) != 0) continue;
    if (i >= x[0].shape().size()) x.refuse("a 0 in the shape must stand for one of the input's extents");
    shape[i] = x[0].shape()[i];
  }
  return {x[0].reshape(Shape(shape))};
}

constexpr OnnxOperator kShapeOperators[] = {
    {.type = "Reshape", .run = reshaped, .attributes = "allowzero", .settings = 2},
};

}  // namespace

std::span<const OnnxOperator> onnx_shape_operators() { return kShapeOperators; }

}  // namespace adjoint::nn::detail
