#include <adjoint/nn/linear.h>

#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/matmul/matmul.h>

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
  const OpScope scope("Linear");
  check_not_moved_from("Linear");
  const Tensor w = weight, b = bias;
  check_defined("Linear", "input", input);
  ADJOINT_CHECK(w.dim() == 2, "Linear: weight must have two axes, (out_features, in_features); got {}", w.shape());
  ADJOINT_CHECK(input.dim() >= 1 && input.size(-1) == w.size(1),
                "Linear: input's last axis must have in_features; got input {}, weight {}", input.shape(), w.shape());
  ADJOINT_CHECK(input.dtype() == w.dtype(),
                "Linear: input and weight must share a dtype; got input {}, weight {}; convert one with to(dtype)",
                input.dtype(), w.dtype());
  ADJOINT_CHECK(input.device() == w.device(),
                "Linear: input and weight must be on one device; got input {}, weight {}; move one with to(device)",
                input.device(), w.device());
  if (!b.defined()) return matmul(input, w.transpose(0, 1));
  ADJOINT_CHECK(b.shape() == Shape{w.size(0)} && b.dtype() == w.dtype() && b.device() == w.device(),
                "Linear: bias must have out_features elements, and weight's dtype and device; got {} {} on {}, weight "
                "{} {} on {}",
                b.dtype(), b.shape(), b.device(), w.dtype(), w.shape(), w.device());
  return matmul(input, w.transpose(0, 1)) + b;
}

}  // namespace adjoint::nn
