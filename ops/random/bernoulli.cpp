// bernoulli: uniform numbers compared with probabilities.
#include <adjoint/core/check.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/random/random.h>

namespace adjoint {

Tensor bernoulli(const Tensor& probabilities) {
  const OpScope scope("bernoulli");
  check_defined("bernoulli", "probabilities", probabilities);
  check_floating("bernoulli", probabilities.dtype());
  // 16 bits of a uniform number would be too coarse for small probabilities.
  Tensor p = probabilities.detach();
  if (element_size(p.dtype()) == 2) p = p.to(kFloat32);
  if (p.device().is_cpu() && p.numel() > 0) {
    const Tensor inside = logical_and(p >= 0.0, p <= 1.0);
    ADJOINT_CHECK((inside == 0.0).to(kUInt8).max().item<std::uint8_t>() == 0,
                  "bernoulli: probabilities must lie in [0, 1]; got one outside in a tensor of shape {}", p.shape());
  }
  return (Tensor::rand(p.shape(), {.dtype = p.dtype(), .device = p.device()}) < p).to(probabilities.dtype());
}

Tensor bernoulli(const Tensor& x, double p) {
  const OpScope scope("bernoulli");
  check_defined("bernoulli", "x", x);
  ADJOINT_CHECK(p >= 0.0 && p <= 1.0, "bernoulli: p must lie in [0, 1]; got {} for x {}", p, x.shape());
  return (Tensor::rand(x.shape(), {.dtype = kFloat64, .device = x.device()}) < p).to(x.dtype());
}

}  // namespace adjoint
