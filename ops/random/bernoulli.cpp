// bernoulli: uniform numbers compared with probabilities.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/index/index.h>
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
    const Tensor outside = nonzero(logical_not(logical_and(p >= 0.0, p <= 1.0)));
    if (outside.size(0) > 0) {
      const Dims place(outside.select(0, 0).to_vector<std::int64_t>());
      Tensor first = p;
      for (const std::int64_t index : place) first = first.select(0, index);
      fail("bernoulli: probabilities must lie in [0, 1]; got {} at {} of a tensor of shape {}", first.item<double>(),
           place, p.shape());
    }
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
