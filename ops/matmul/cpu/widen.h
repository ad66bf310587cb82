// The 16-bit floats, whose products and convolutions are computed in float32 and rounded once.
#pragma once

#include <adjoint/core/copy.h>
#include <adjoint/core/tensor_impl.h>

#include <span>
#include <vector>

namespace adjoint::cpu {

/// body.template operator()<T>(operands, result) with T = float or double, and a 16-bit float's operands and result as
/// float32. Undefined operands stay so.
template <class Body>
void in_compute_type(std::span<const Tensor> in, Tensor& out, Body&& body) {
  if (out.dtype() == kFloat64) return body.template operator()<double>(in, out);
  if (out.dtype() == kFloat32) return body.template operator()<float>(in, out);
  std::vector<Tensor> wide;
  for (const Tensor& operand : in) {
    if (!operand.defined()) {
      wide.emplace_back();
      continue;
    }
    wide.push_back(make_tensor({operand.shape(), kFloat32}, operand.device()));
    copy_into(operand, wide.back());
  }
  Tensor sums = make_tensor({out.shape(), kFloat32}, out.device());
  body.template operator()<float>(std::span<const Tensor>(wide), sums);
  copy_into(sums, out);
}

}  // namespace adjoint::cpu
