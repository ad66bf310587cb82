// The types in which gradient rules of several steps compute, so that no step rounds to 16 bits, or overflows them.
// Internal to the library.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/tensor/tensor.h>

#include <algorithm>
#include <array>

namespace adjoint {

/// float16 and bfloat16 as float32; others, and undefined tensors, unchanged. Recorded.
inline Tensor widened(const Tensor& x) {
  return x.defined() && is_floating_point(x.dtype()) && element_size(x.dtype()) == 2 ? x.to(kFloat32) : x;
}

/// `rule` on widened tensors, its result rounded once to the gradient's dtype.
template <auto rule, class Attr>
Tensor rounded_once(const Ctx<Attr>& c) {
  std::array<Tensor, kMaxRules> in;
  std::transform(c.in.begin(), c.in.end(), in.begin(), widened);
  const Tensor out = widened(c.out), grad = widened(c.grad);
  return rule(Ctx<Attr>({in.data(), c.in.size()}, {&out, 1}, {&grad, 1}, c.attr, c.index)).to(c.grad.dtype());
}

}  // namespace adjoint
