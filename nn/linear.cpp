#include <adjoint/nn/linear.h>

#include <adjoint/core/base/check.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/matmul/linear.h>

namespace adjoint::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) : Module("Linear") {
  ADJOINT_CHECK(in_features >= 1 && out_features >= 1,
                "Linear: in_features and out_features must be at least 1; got {}, {}", in_features, out_features);
  const OpScope scope("Linear");
  set_description(fmt::format("in_features={}, out_features={}, bias={}", in_features, out_features,
                              options.bias ? "True" : "False"));
  weight = register_parameter("weight", Tensor::empty({out_features, in_features}));
  bias = register_parameter("bias", options.bias ? Tensor::empty({out_features}) : Tensor(), {.optional = true});
  init::default_(weight, bias);
}

Tensor Linear::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return product(x); });
}

Tensor Linear::product(const Tensor& input) const {
  const OpScope scope("Linear");
  check_not_moved_from("Linear");
  return linear(input, weight, bias);
}

}  // namespace adjoint::nn
