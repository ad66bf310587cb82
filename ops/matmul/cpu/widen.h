// 16-bit floats: their products and convolutions are computed in float32 and rounded once.
#pragma once

#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <span>

namespace adjoint::cpu {

/// body.template operator()<T>(operands, result) with T = float or double; operands and result of a 16-bit float are
/// passed as float32. The result may be float32 even if the operands are 16-bit. Undefined operands stay undefined.
template <class Body>
void in_compute_type(std::span<const Tensor> in, Tensor& out, Body&& body) {
  if (out.dtype() == kFloat64) return body.template operator()<double>(in, out);
  if (in[0].dtype() == kFloat32) return body.template operator()<float>(in, out);
  ScratchVector<Tensor> wide;
  for (const Tensor& operand : in) {
    if (!operand.defined()) {
      wide.emplace_back();
      continue;
    }
    wide.push_back(make_tensor({operand.shape(), kFloat32}, operand.device()));
    copy_into(operand, wide.back());
  }
  if (out.dtype() == kFloat32) return body.template operator()<float>(std::span<const Tensor>(wide), out);
  Tensor sums = make_tensor({out.shape(), kFloat32}, out.device());
  body.template operator()<float>(std::span<const Tensor>(wide), sums);
  copy_into(sums, out);
}

}  // namespace adjoint::cpu
