#include <adjoint/ops/matmul/linear.h>

#include <adjoint/core/autocast.h>
#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/matmul/matmul.h>

namespace adjoint {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const OpScope scope("linear");
  check_defined("linear", "input", x);
  check_defined("linear", "weight", weight);
  if (const detail::AutocastCall low(MixedPrecision::kLow, {x, weight, bias}); low) {
    return linear(low[0], low[1], low[2]);
  }
  ADJOINT_CHECK(weight.dim() == 2, "linear: weight must have two axes, (out_features, in_features); got {}",
                weight.shape());
  ADJOINT_CHECK(x.dim() >= 1 && x.size(-1) == weight.size(1),
                "linear: input's last axis must have in_features; got input {}, weight {}", x.shape(), weight.shape());
  ADJOINT_CHECK(x.dtype() == weight.dtype(),
                "linear: input and weight must share a dtype; got input {}, weight {}; convert one with to(dtype)",
                x.dtype(), weight.dtype());
  ADJOINT_CHECK(x.device() == weight.device(),
                "linear: input and weight must be on one device; got input {}, weight {}; move one with to(device)",
                x.device(), weight.device());
  if (!bias.defined()) return matmul(x, weight.transpose(0, 1));
  ADJOINT_CHECK(
      bias.shape() == Shape{weight.size(0)} && bias.dtype() == weight.dtype() && bias.device() == weight.device(),
      "linear: bias must have out_features elements, and weight's dtype and device; got {} {} on {}, weight {} {} on "
      "{}",
      bias.dtype(), bias.shape(), bias.device(), weight.dtype(), weight.shape(), weight.device());
  return matmul(x, weight.transpose(0, 1)) + bias;
}

}  // namespace adjoint
