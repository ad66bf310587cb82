#include <adjoint/nn/linear.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/matmul/matmul.h>

namespace adjoint::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) : Module("Linear") {
  ADJOINT_CHECK(in_features >= 1 && out_features >= 1,
                "Linear: in_features and out_features must be at least 1; got {}, {}", in_features, out_features);
  set_description(fmt::format("in_features={}, out_features={}, bias={}", in_features, out_features,
                              options.bias ? "True" : "False"));
  weight = register_parameter("weight", Tensor::empty({out_features, in_features}));
  if (options.bias) bias = register_parameter("bias", Tensor::empty({out_features}));
  init::default_(weight, bias);
}

Tensor Linear::operator()(const Tensor& input) const {
  check_defined("Linear", "input", input);
  ADJOINT_CHECK(input.dim() >= 1 && input.size(-1) == weight.size(1),
                "Linear: input's last axis must have in_features; got input {}, weight {}", input.shape(),
                weight.shape());
  const Tensor product = matmul(input, weight.transpose(0, 1));
  return bias.defined() ? product + bias : product;
}

}  // namespace adjoint::nn
