#include <adjoint/core/autograd/op.h>

#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
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

Tensor make_result(const TensorSpec& spec, Device device) {
  GradientPlaces* const places = context().gradient_places;
  if (places != nullptr && spec.format.value_or(kContiguous) == kContiguous) [[unlikely]] {
    if (Tensor place = places->take(spec, device); place.defined()) return place;
  }
  return make_tensor(spec, device);
}

void make_contiguous(Operands in, std::span<Tensor> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].defined()) out[i] = contiguous_copy(in[i]);
  }
}

void in_memory_order(std::size_t rank, Operands in, std::span<Tensor> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool is_permuted = in[i].defined() && in[i].shape().size() == rank;
    out[i] = is_permuted ? adjoint::in_memory_order(in[i], kChannelsLast) : in[i];
  }
}

void make_contiguous_results(Operands out, std::span<Tensor> contiguous) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].defined()) continue;
    const bool is_there = out[i].is_contiguous();
    contiguous[i] = is_there ? out[i] : make_tensor({out[i].shape(), out[i].dtype()}, out[i].device());
  }
}

void copy_results(Operands from, Results to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].defined() && from[i].impl() != to[i].impl()) copy_into(from[i], to[i]);
  }
}

}  // namespace adjoint::detail
