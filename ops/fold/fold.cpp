// unfold, a copy from a view whose blocks overlap, and fold, its adjoint.
#include <adjoint/ops/fold/fold.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/fold/kernels.h>

#include <array>
#include <limits>
#include <vector>

namespace adjoint {
namespace {

Shape image_shape(const FoldAttr& attr) { return {attr.batch, attr.channels, attr.h.size, attr.w.size}; }

Shape column_shape(const FoldAttr& attr) {
  return {attr.batch, attr.channels, attr.h.kernel, attr.w.kernel, attr.h.out, attr.w.out};
}

// Serves either device.
void unfold_kernel(Operands in, Tensor& out, const FoldAttr& attr) {
  const auto& [batch, channels, h, w] = attr;
  Tensor image = in[0];
  if (h.padding != 0 || w.padding != 0) {
    const Shape padded{batch, channels, h.size + 2 * h.padding, w.size + 2 * w.padding};
    image = make_tensor({padded, in[0].dtype()}, in[0].device());
    image.zero_();
    Tensor inside = image.view_as(in[0].shape(), image.strides(), h.padding * padded[3] + w.padding);
    copy_into(in[0], inside);
  }
  const Strides& s = image.strides();
  const Strides strides{s[0], s[1], h.dilation * s[2], w.dilation * s[3], h.stride * s[2], w.stride * s[3]};
  copy_into(image.view_as(column_shape(attr), strides, image.storage_offset()), out);
}

// ---- ONNX, one axis after the other: (N, C, H, W) <-> (N, C, kh, h, W) <-> (N, C, kh, kw, h, w). Convolutions with
// ones and zeros would spread infinities and NaN.

OnnxValue joined_onnx(OnnxCall& call, const char* type, const std::vector<OnnxValue>& parts,
                      const OnnxAttributes& attributes = {}) {
  return parts.size() == 1 ? parts.front() : call.add_node(type, parts, attributes, 1).front();
}

// Returns true if the blocks tile the image, so that both directions are a permutation.
bool is_tiled(const FoldAxis& axis) {
  return axis.stride == axis.kernel && axis.dilation == 1 && axis.padding == 0 && axis.size == axis.out * axis.kernel;
}

// The image's axis becomes the blocks' axis, and the kernel's elements become a new axis.
OnnxValue unfold_axis_onnx(OnnxCall& call, OnnxValue x, const FoldAxis& attr, std::int64_t axis,
                           std::int64_t kernel_axis) {
  std::vector<OnnxValue> elements;
  for (std::int64_t k = 0; k < attr.kernel; ++k) {
    const std::int64_t behind = (attr.kernel - 1 - k) * attr.dilation;
    const std::int64_t end = behind == 0 ? std::numeric_limits<std::int64_t>::max() : -behind;
    const OnnxValue element = call.add("Slice", {x, call.integers({k * attr.dilation}), call.integers({end}),
                                                 call.integers({axis}), call.integers({attr.stride})});
    elements.push_back(call.add("Unsqueeze", {element, call.integers({kernel_axis})}));
  }
  return joined_onnx(call, "Concat", elements, {{"axis", kernel_axis}});
}

OnnxValue unfold_onnx(OnnxCall& call, const FoldAttr& attr) {
  const auto& [batch, channels, h, w] = attr;
  OnnxValue x = call.operand(0);
  if (is_tiled(h) && is_tiled(w)) {
    x = call.reshape(x, std::array{batch, channels, h.out, h.kernel, w.out, w.kernel});
    return call.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 5, 2, 4}}});
  }
  if (h.padding != 0 || w.padding != 0)
    x = call.add("Pad", {x, call.integers({0, 0, h.padding, w.padding, 0, 0, h.padding, w.padding})});
  return unfold_axis_onnx(call, unfold_axis_onnx(call, x, h, 2, 2), w, 4, 3);
}

// The inverse, which adds overlapping blocks. `shape` is that of x, and becomes that of the result.
OnnxValue fold_axis_onnx(OnnxCall& call, OnnxValue x, Shape& shape, const FoldAxis& attr, std::size_t axis,
                         std::size_t kernel_axis) {
  const auto pad_axis = [&](OnnxValue value, std::size_t rank, std::size_t at, std::int64_t before,
                            std::int64_t behind) {
    std::vector<std::int64_t> pads(2 * rank);
    pads[at] = before;
    pads[rank + at] = behind;
    return call.add("Pad", {value, call.integers(pads)});
  };
  if (attr.stride > 1) {  // zeros between blocks
    const OnnxValue apart = call.add("Unsqueeze", {x, call.integers({static_cast<std::int64_t>(axis) + 1})});
    shape[axis] *= attr.stride;
    x = call.reshape(pad_axis(apart, shape.size() + 1, axis + 1, 0, attr.stride - 1), shape);
  }
  shape.erase(kernel_axis);
  std::vector<OnnxValue> parts;
  for (std::int64_t k = 0; k < attr.kernel; ++k) {
    const OnnxValue part =
        call.add("Gather", {x, call.number(k, kInt64)}, {{"axis", static_cast<std::int64_t>(kernel_axis)}});
    parts.push_back(attr.kernel == 1 ? part
                                     : pad_axis(part, shape.size(), axis - 1, k * attr.dilation,
                                                (attr.kernel - 1 - k) * attr.dilation));
  }
  shape[axis - 1] = attr.size;
  const OnnxValue sum = joined_onnx(call, "Sum", parts);
  return call.add("Slice", {sum, call.integers({attr.padding}), call.integers({attr.padding + attr.size}),
                            call.integers({static_cast<std::int64_t>(axis) - 1})});
}

OnnxValue fold_onnx(OnnxCall& call, const FoldAttr& attr) {
  const OnnxValue columns = call.operand(0);
  if (is_tiled(attr.h) && is_tiled(attr.w)) {
    const std::vector<std::int64_t> axes{0, 1, 4, 2, 5, 3};
    return call.reshape(call.add("Transpose", {columns}, {{"perm", axes}}), call.out[0].shape());
  }
  Shape shape = call.in[0].shape();
  const OnnxValue rows = fold_axis_onnx(call, columns, shape, attr.w, 5, 3);
  return fold_axis_onnx(call, rows, shape, attr.h, 3, 2);
}

Tensor fold_columns(const Tensor& columns, const FoldAttr& attr);

constinit const OpDef<FoldAttr> unfold_op{.name = "unfold",
                                          .infer =
                                              [](Operands in, const FoldAttr& attr) {
                                                return TensorSpec{column_shape(attr), in[0].dtype()};
                                              },
                                          .cpu = unfold_kernel,
                                          .cuda = ADJOINT_IF_CUDA(unfold_kernel),
                                          .strided = true,
                                          .onnx = unfold_onnx,
                                          .vjp = {{{kSaveNone, [](const Ctx<FoldAttr>& c) {
                                                      return fold_columns(c.grad, c.attr);
                                                    }}}}};

constinit const OpDef<FoldAttr> fold_op{.name = "fold",
                                        .infer =
                                            [](Operands in, const FoldAttr& attr) {
                                              return TensorSpec{image_shape(attr), in[0].dtype()};
                                            },
                                        .cpu = cpu::fold,
                                        .cuda = ADJOINT_IF_CUDA(cuda::fold),
                                        .onnx = fold_onnx,
                                        .vjp = {{{kSaveNone, [](const Ctx<FoldAttr>& c) {
                                                    return apply(unfold_op, {c.grad}, c.attr);
                                                  }}}}};

Tensor fold_columns(const Tensor& columns, const FoldAttr& attr) { return apply(fold_op, {columns}, attr); }

FoldAxis axis(const char* op, const char* name, std::int64_t size, std::int64_t kernel, std::int64_t dilation,
              std::int64_t padding, std::int64_t stride) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  ADJOINT_CHECK(kernel >= 1 && dilation >= 1 && padding >= 0 && stride >= 1 && kernel < kMost && dilation < kMost &&
                    padding < kMost && stride < kMost,
                "{}: kernel_size, dilation and stride must be at least 1 and padding at least 0, all below 2^31; got "
                "{}, {}, {}, {} for the {}",
                op, kernel, dilation, stride, padding, name);
  std::int64_t padded = 0;
  const std::int64_t block = dilation * (kernel - 1) + 1;
  ADJOINT_CHECK(size >= 0 && !__builtin_add_overflow(size, 2 * padding, &padded) && padded >= block,
                "{}: the padded {} must hold a block; got {} and padding {} for a block of {}", op, name, size, padding,
                block);
  return {size, (padded - block) / stride + 1, kernel, dilation, padding, stride};
}

FoldAttr attributes(const char* op, const Size2& size, const UnfoldParams& p) {
  return {.batch = 1,
          .channels = 0,
          .h = axis(op, "height", size.h, p.kernel_size.h, p.dilation.h, p.padding.h, p.stride.h),
          .w = axis(op, "width", size.w, p.kernel_size.w, p.dilation.w, p.padding.w, p.stride.w)};
}

// Extents of a tensor without elements can be anything, so a product may exceed 63 bits.
std::int64_t product(const char* op, const Tensor& input, std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  std::int64_t ab = 0, abc = 0;
  ADJOINT_CHECK(!__builtin_mul_overflow(a, b, &ab) && !__builtin_mul_overflow(ab, c, &abc),
                "{}: extents must fit in 63 bits; got input {}, {} times {} times {}", op, input.shape(), a, b, c);
  return abc;
}

}  // namespace

Tensor unfold(const Tensor& input, const UnfoldParams& params) {
  const OpScope scope("unfold");
  check_defined("unfold", "input", input);
  ADJOINT_CHECK(input.dim() == 3 || input.dim() == 4, "unfold: input must be (N, C, H, W) or (C, H, W); got {}",
                input.shape());
  const bool batched = input.dim() == 4;
  const Tensor x = batched ? input : input.unsqueeze(0);
  FoldAttr attr = attributes("unfold", {x.size(2), x.size(3)}, params);
  attr.batch = x.size(0);
  attr.channels = x.size(1);
  const std::int64_t rows = product("unfold", input, attr.channels, attr.h.kernel, attr.w.kernel);
  const std::int64_t columns = product("unfold", input, attr.h.out, attr.w.out);
  const Tensor unfolded = apply(unfold_op, {x}, attr);
  return unfolded.reshape(batched ? Shape{attr.batch, rows, columns} : Shape{rows, columns});
}

Tensor fold(const Tensor& input, const Size2& output_size, const UnfoldParams& params) {
  const OpScope scope("fold");
  check_defined("fold", "input", input);
  check_floating("fold", input.dtype());
  ADJOINT_CHECK(input.dim() == 2 || input.dim() == 3, "fold: input must be (N, C kh kw, L) or (C kh kw, L); got {}",
                input.shape());
  const bool batched = input.dim() == 3;
  FoldAttr attr = attributes("fold", output_size, params);
  const std::int64_t block = product("fold", input, attr.h.kernel, attr.w.kernel);
  const std::int64_t columns = product("fold", input, attr.h.out, attr.w.out);
  ADJOINT_CHECK(input.size(-2) % block == 0 && input.size(-1) == columns,
                "fold: rows must be a multiple of the kernel's {} elements, and columns the output's {} blocks; got "
                "input {}",
                block, columns, input.shape());
  attr.batch = batched ? input.size(0) : 1;
  attr.channels = input.size(-2) / block;
  const Tensor folded = fold_columns(input.reshape(column_shape(attr)), attr);
  return batched ? folded : folded.squeeze(0);
}

}  // namespace adjoint
