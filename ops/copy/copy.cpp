// to(Device), to(DType), clone and contiguous, recorded; core's copy_into moves the elements.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor.h>

#include <optional>

namespace adjoint {
namespace {

struct CopyAttr {
  DType dtype;  // the result's
  Device device;
  DType from_dtype;
  Device from_device;
  std::optional<MemoryFormat> format = {};  // the result's; the operand's if empty
};

TensorSpec copy_spec(Operands in, const CopyAttr& attr) {
  return {in[0].shape(), attr.dtype, attr.device, attr.format};
}

void copy_kernel(Operands in, Tensor& out, const CopyAttr&) { copy_into(in[0], out); }

OnnxValue copy_onnx(OnnxCall& call, const CopyAttr& attr) {
  return attr.dtype == attr.from_dtype ? call.operand(0) : call.cast(call.operand(0), attr.dtype);
}

constexpr OpDef<CopyAttr> copy_op(const char* name, Tensor (*rule)(const Ctx<CopyAttr>&)) {
  return {.name = name,
          .infer = copy_spec,
          .cpu = copy_kernel,
          .cuda = ADJOINT_IF_CUDA(copy_kernel),
          .strided = true,
          .formats = Formats::kElementwise,
          .onnx = copy_onnx,
          .vjp = {{{.rule = rule}}}};
}

Tensor pass_gradient(const Ctx<CopyAttr>& c) { return c.grad; }
Tensor convert_gradient(const Ctx<CopyAttr>& c) { return c.grad.to(c.attr.from_dtype); }
Tensor move_gradient(const Ctx<CopyAttr>& c) { return c.grad.to(c.attr.from_device); }

constinit const OpDef<CopyAttr> clone_op = copy_op("clone", pass_gradient);
constinit const OpDef<CopyAttr> contiguous_op = copy_op("contiguous", pass_gradient);
constinit const OpDef<CopyAttr> convert_op = copy_op("to", convert_gradient);
constinit const OpDef<CopyAttr> discretise_op = copy_op("to", nullptr);  // to a dtype that has no gradient
constinit const OpDef<CopyAttr> move_op = copy_op("to", move_gradient);

Tensor run_copy(const OpDef<CopyAttr>& op, const Tensor& input, DType dtype, Device device,
                std::optional<MemoryFormat> format = {}) {
  return apply(op, Operands(&input, 1), {dtype, device, input.dtype(), input.device(), format});
}

}  // namespace

Tensor Tensor::to(Device device) const {
  check_defined("to", "input", *this);
  return device == this->device() ? *this : run_copy(move_op, *this, dtype(), device);
}

Tensor Tensor::to(DType dtype) const {
  check_defined("to", "input", *this);
  if (dtype == this->dtype()) return *this;
  return run_copy(adjoint::is_floating_point(dtype) ? convert_op : discretise_op, *this, dtype, device());
}

Tensor Tensor::clone() const {
  check_defined("clone", "input", *this);
  return run_copy(clone_op, *this, dtype(), device());
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  check_defined("contiguous", "input", *this);
  if (is_contiguous(format)) return *this;
  const Tensor copy = run_copy(contiguous_op, *this, dtype(), device(), format);
  if (!copy.requires_grad()) detail::mark_outside(*this, copy);
  return copy;
}

}  // namespace adjoint
