// diagonal is a view; the operator that puts a diagonal into zeros is its adjoint.
#include <adjoint/ops/view/diagonal.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/ops/elementwise/elementwise.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace adjoint {
namespace {

struct DiagonalAttr {
  std::size_t rows, columns;   // axes
  std::int64_t height, width;  // their extents
  std::int64_t offset;

  std::int64_t length() const {
    return std::max<std::int64_t>(0, offset >= 0 ? std::min(height, width - offset) : std::min(height + offset, width));
  }
};

Tensor diagonal_view(const Tensor& in, const DiagonalAttr& attr) {
  Shape shape = in.shape();
  Strides strides = in.strides();
  const std::int64_t down = strides[attr.rows], right = strides[attr.columns], length = attr.length();
  for (const std::size_t axis : {std::max(attr.rows, attr.columns), std::min(attr.rows, attr.columns)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(length);
  strides.push_back(down + right);
  const std::int64_t first = attr.offset >= 0 ? attr.offset * right : -attr.offset * down;
  return in.view_as(shape, strides, in.storage_offset() + (length > 0 ? first : 0));
}

// For either device.
void diagonal_embed_kernel(Operands in, Tensor& out, const DiagonalAttr& attr) {
  out.zero_();
  Tensor inside = diagonal_view(out, attr);
  copy_into(in[0], inside);
}

// The places of the diagonal's elements in matrices of one axis.
std::vector<std::int64_t> diagonal_places(const DiagonalAttr& attr) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < attr.length(); ++i) {
    const std::int64_t row = i - std::min<std::int64_t>(attr.offset, 0),
                       column = i + std::max<std::int64_t>(attr.offset, 0);
    places.push_back(row * attr.width + column);
  }
  return places;
}

// (..., height, width) -> (..., height width), and its elements there.
OnnxValue diagonal_onnx(OnnxCall& call, const DiagonalAttr& attr) {
  std::vector<std::int64_t> axes, flat;
  for (std::size_t axis = 0; axis < call.in[0].shape().size(); ++axis) {
    if (axis == attr.rows || axis == attr.columns) continue;
    axes.push_back(static_cast<std::int64_t>(axis));
    flat.push_back(call.in[0].shape()[axis]);
  }
  axes.push_back(static_cast<std::int64_t>(attr.rows));
  axes.push_back(static_cast<std::int64_t>(attr.columns));
  flat.push_back(attr.height * attr.width);
  const OnnxValue matrices = call.add("Transpose", {call.operand(0)}, {{"perm", axes}});
  return call.add("Gather", {call.reshape(matrices, flat), call.integers(diagonal_places(attr))},
                  {{"axis", std::int64_t{-1}}});
}

// The diagonal between zeros, in matrices of one axis: each of their elements is one of the diagonal's, or the zero
// behind it.
OnnxValue diagonal_embed_onnx(OnnxCall& call, const DiagonalAttr& attr) {
  const std::size_t rank = call.in[0].shape().size();
  std::vector<std::int64_t> pads(2 * rank), places(static_cast<std::size_t>(attr.height * attr.width), attr.length()),
      shape;
  pads.back() = 1;
  std::int64_t next = 0;
  for (const std::int64_t place : diagonal_places(attr)) places[static_cast<std::size_t>(place)] = next++;
  const OnnxValue padded = call.add("Pad", {call.operand(0), call.integers(pads)});
  const OnnxValue flat = call.add("Gather", {padded, call.integers(places)}, {{"axis", std::int64_t{-1}}});
  std::vector<std::int64_t> axes(rank + 1);  // of the matrices, for each axis of the result
  std::int64_t other = 0;
  for (std::size_t axis = 0; axis <= rank; ++axis) {
    const auto last = static_cast<std::int64_t>(rank);
    axes[axis] = axis == attr.rows ? last - 1 : axis == attr.columns ? last : other++;
  }
  for (std::size_t axis = 0; axis + 1 < rank; ++axis) shape.push_back(call.in[0].shape()[axis]);
  shape.push_back(attr.height);
  shape.push_back(attr.width);
  return call.add("Transpose", {call.reshape(flat, shape)}, {{"perm", axes}});
}

extern constinit const OpDef<DiagonalAttr> diagonal_op;

// (..., length) -> x's shape.
constinit const OpDef<DiagonalAttr> diagonal_embed_op{
    .name = "diagonal_embed",
    .infer =
        [](Operands in, const DiagonalAttr& attr) {
          Shape shape = in[0].shape();
          shape.erase(shape.size() - 1);
          const bool rows_first = attr.rows < attr.columns;
          shape.insert(std::min(attr.rows, attr.columns), rows_first ? attr.height : attr.width);
          shape.insert(std::max(attr.rows, attr.columns), rows_first ? attr.width : attr.height);
          return TensorSpec{shape, in[0].dtype()};
        },
    .cpu = diagonal_embed_kernel,
    .cuda = ADJOINT_IF_CUDA(diagonal_embed_kernel),
    .strided = true,
    .onnx = diagonal_embed_onnx,
    .vjp = {{{.rule = [](const Ctx<DiagonalAttr>& c) { return apply(diagonal_op, {c.grad}, c.attr); }}}}};

constinit const OpDef<DiagonalAttr> diagonal_op{.name = "diagonal",
                                                .view = diagonal_view,
                                                .onnx = diagonal_onnx,
                                                .vjp = {{{.rule = [](const Ctx<DiagonalAttr>& c) {
                                                  return apply(diagonal_embed_op, {c.grad}, c.attr);
                                                }}}}};

// True for the elements on diagonal `offset` or below it: (height, width).
Tensor below_diagonal(const Tensor& x, std::int64_t offset) {
  const std::int64_t height = x.size(-2), width = x.size(-1);
  const TensorOptions options{.dtype = kInt64, .device = x.device()};
  const Tensor rows = Tensor::arange(height, options).unsqueeze(1), columns = Tensor::arange(width, options);
  return columns <= rows + std::clamp<std::int64_t>(offset, -height, width);
}

struct TriangleAttr {
  bool upper;
  std::int64_t offset;
};

// ONNX Runtime accepts no integers but int64.
OnnxValue triangle_onnx(OnnxCall& call, const TriangleAttr& attr) {
  const DType dtype = call.in[0].dtype();
  const bool widens = dtype == kInt32 || dtype == kUInt8;
  const OnnxValue x = widens ? call.cast(call.operand(0), kInt64) : call.operand(0);
  const OnnxValue triangle = call.add("Trilu", {x, call.number(attr.offset, kInt64)}, {{"upper", attr.upper}});
  return widens ? call.cast(triangle, dtype) : triangle;
}

Tensor check_matrices(const char* op, const Tensor& x) {
  check_defined(op, "x", x);
  ADJOINT_CHECK(x.dim() >= 2, "{}: x must have two axes at least; got {}", op, x.shape());
  return Tensor::zeros({}, x.options());
}

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  const OpScope scope("diagonal");
  check_defined("diagonal", "x", x);
  const std::size_t rank = x.shape().size();
  const std::size_t rows = resolve_axis("diagonal", axis1, rank), columns = resolve_axis("diagonal", axis2, rank);
  ADJOINT_CHECK(rows != columns, "diagonal: the axes must differ; got {} and {} for x {}", axis1, axis2, x.shape());
  const std::int64_t height = x.shape()[rows], width = x.shape()[columns];
  return apply(diagonal_op, {x}, {rows, columns, height, width, std::clamp(offset, -height, width)});
}

Tensor diag(const Tensor& x, std::int64_t offset) {
  const OpScope scope("diag");
  check_defined("diag", "x", x);
  ADJOINT_CHECK(x.dim() == 1 || x.dim() == 2, "diag: x must have one or two axes; got {}", x.shape());
  if (x.dim() == 2) return diagonal(x, offset).clone();
  std::int64_t extent = 0;
  ADJOINT_CHECK(offset != INT64_MIN && !__builtin_add_overflow(x.size(0), std::abs(offset), &extent),
                "diag: the matrix's extents must fit in 63 bits; got offset {} for x {}", offset, x.shape());
  return apply(diagonal_embed_op, {x}, {0, 1, extent, extent, offset});
}

Tensor tril(const Tensor& x, std::int64_t offset) {
  const OpScope scope("tril");
  const Tensor zero = check_matrices("tril", x);
  const auto compute = [&] { return where(below_diagonal(x, offset), x, zero); };
  return detail::as_one_call("tril", triangle_onnx, TriangleAttr{false, offset}, compute, x);
}

Tensor triu(const Tensor& x, std::int64_t offset) {
  const OpScope scope("triu");
  const Tensor zero = check_matrices("triu", x);
  // On the diagonal or above it is not below it: not on the one before or below that.
  const auto compute = [&] {
    return where(below_diagonal(x, std::max<std::int64_t>(offset, INT64_MIN + 1) - 1), zero, x);
  };
  return detail::as_one_call("triu", triangle_onnx, TriangleAttr{true, offset}, compute, x);
}

}  // namespace adjoint
