#include <adjoint/core/autograd/op.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>

namespace adjoint::detail {

void check_operands(const char* op, Operands in, std::uint32_t optional) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) {
      if (i < 32 && (optional >> i & 1U) != 0) continue;
      fail("{}: operands must be defined; got Tensor{{}} as operand {}", op, i);
    }
    if (in[i].device() != in[0].device()) [[unlikely]] {
      fail("{}: operands must be on one device; got {} and {} (shapes {} and {}); move one with to()", op,
           in[0].device(), in[i].device(), in[0].shape(), in[i].shape());
    }
  }
}

void check_target(const char* op, const Tensor& target, const TensorSpec& spec) {
  ADJOINT_CHECK(spec.shape == target.shape() && spec.dtype == target.dtype(),
                "{}: the result must have the target's shape and dtype; got {} {} for {} {}", op, spec.shape,
                spec.dtype, target.shape(), target.dtype());
}

void no_kernel(const char* op, Device device) {
  fail("{}: this operator has no kernel for {} in this build; move the operands to the CPU with to(kCPU)", op, device);
}

void make_contiguous(Operands in, std::span<Tensor> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].defined()) out[i] = contiguous_copy(in[i]);
  }
}

}  // namespace adjoint::detail
