#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/join/join.h>

#include <memory>
#include <utility>

namespace adjoint {
namespace {

struct CatAttr {
  std::int64_t axis;
  // (operands + 1): the start of each along the axis, and the end.
  std::shared_ptr<const std::vector<std::int64_t>> offsets;

  std::int64_t begin(std::size_t i) const { return (*offsets)[i]; }
  std::int64_t length(std::size_t i) const { return (*offsets)[i + 1] - (*offsets)[i]; }
};

// The part of `whole` that operand i fills; not recorded.
Tensor part_of(const Tensor& whole, const CatAttr& attr, std::size_t i) {
  const auto axis = static_cast<std::size_t>(attr.axis);
  Shape shape = whole.shape();
  shape[axis] = attr.length(i);
  return whole.view_as(shape, whole.strides(), whole.storage_offset() + attr.begin(i) * whole.strides()[axis]);
}

TensorSpec cat_spec(Operands in, const CatAttr& attr) {
  Shape shape = in[0].shape();
  shape[static_cast<std::size_t>(attr.axis)] = attr.offsets->back();
  return {shape, in[0].dtype()};
}

// Serves both devices, because a copy runs on its tensors' device.
void cat_kernel(Operands in, Tensor& out, const CatAttr& attr) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    Tensor part = part_of(out, attr, i);
    copy_into(in[i], part);
  }
}

OnnxValue cat_onnx(OnnxCall& call, const CatAttr& attr) {
  std::vector<OnnxValue> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) operands.push_back(call.operand(i));
  return call.add_node("Concat", operands, {{"axis", attr.axis}}, 1).front();
}

constinit const OpDef<CatAttr> cat_op{.name = "cat",
                                      .infer = cat_spec,
                                      .cpu = cat_kernel,
                                      .cuda = ADJOINT_IF_CUDA(cat_kernel),
                                      .strided = true,
                                      .formats = Formats::kAnyStrides,
                                      .variadic = true,
                                      .onnx = cat_onnx,
                                      .vjp = {Vjp<CatAttr>{kSaveNone, [](const Ctx<CatAttr>& c) {
                                                             return c.grad.narrow(c.attr.axis, c.attr.begin(c.index),
                                                                                  c.attr.length(c.index));
                                                           }}}};

void check_first(const char* op, const std::vector<Tensor>& tensors) {
  ADJOINT_CHECK(!tensors.empty(), "{}: there must be at least one tensor; got none; pass one or more", op);
  for (const Tensor& tensor : tensors) check_defined(op, "a tensor", tensor);
}

void check_alike(const char* op, const std::vector<Tensor>& tensors, std::size_t axis) {
  const Tensor& first = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& other = tensors[i];
    ADJOINT_CHECK(other.dtype() == first.dtype(),
                  "{}: tensors must share one dtype; got {} in place 0, {} in place {}; convert with to(dtype)", op,
                  first.dtype(), other.dtype(), i);
    ADJOINT_CHECK(other.device() == first.device(),
                  "{}: tensors must be on one device; got {} in place 0, {} in place {}; move with to(device)", op,
                  first.device(), other.device(), i);
    const bool stacked = axis == kMaxRank;
    ADJOINT_CHECK(
        !stacked || other.shape() == first.shape(),
        "{}: tensors must have one shape; got {} in place 0, {} in place {}, of {} and {} axes; reshape or pad", op,
        first.shape(), other.shape(), i, first.dim(), other.dim());
    bool fits = other.dim() == first.dim();
    for (std::size_t k = 0; fits && k < first.shape().size(); ++k)
      fits = k == axis || other.shape()[k] == first.shape()[k];
    ADJOINT_CHECK(fits,
                  "{}: tensors must have one shape but for axis {}; got {} in place 0, {} in place {}; reshape or pad",
                  op, axis, first.shape(), other.shape(), i);
  }
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis) {
  check_first("cat", tensors);
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, Operands(tensors)); cast) {
    return cat({cast.operands().begin(), cast.operands().end()}, axis);
  }
  ADJOINT_CHECK(tensors[0].dim() > 0,
                "cat: tensors must have an axis at least; got {} in place 0; use stack for scalars",
                tensors[0].shape());
  const std::size_t at = resolve_axis("cat", axis, tensors[0].shape().size());
  check_alike("cat", tensors, at);
  auto offsets = std::make_shared<std::vector<std::int64_t>>(1, 0);
  for (const Tensor& tensor : tensors) {
    std::int64_t end = 0;
    ADJOINT_CHECK(!__builtin_add_overflow(offsets->back(), tensor.shape()[at], &end),
                  "cat: the result's extents must fit in 63 bits; got {} tensors like {} along axis {}", tensors.size(),
                  tensor.shape(), at);
    offsets->push_back(end);
  }
  return apply(cat_op, Operands(tensors), CatAttr{static_cast<std::int64_t>(at), std::move(offsets)});
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  const OpScope scope("stack");
  check_first("stack", tensors);
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, Operands(tensors)); cast) {
    return stack({cast.operands().begin(), cast.operands().end()}, axis);
  }
  const std::size_t rank = tensors[0].shape().size() + 1;
  ADJOINT_CHECK(rank <= kMaxRank, "stack: the result can have {} axes at most; got tensors {}; flatten some axes",
                kMaxRank, tensors[0].shape());
  const std::size_t at = resolve_axis("stack", axis, rank);
  check_alike("stack", tensors, kMaxRank);
  std::vector<Tensor> slices;
  slices.reserve(tensors.size());
  for (const Tensor& tensor : tensors) slices.push_back(tensor.unsqueeze(static_cast<std::int64_t>(at)));
  return cat(slices, static_cast<std::int64_t>(at));
}

}  // namespace adjoint
