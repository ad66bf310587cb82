// repeat, flip, movedim and unflatten.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/view/view.h>

namespace adjoint {
namespace {

struct FlipAttr {
  unsigned axes;  // bit i: axis i
};

// Serves either device: a copy from a view that runs backwards.
void flip_kernel(Operands in, Tensor& out, const FlipAttr& attr) {
  Strides strides = in[0].strides();
  std::int64_t offset = in[0].storage_offset();
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if ((attr.axes >> axis & 1U) == 0) continue;
    offset += (out.shape()[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  copy_into(in[0].view_as(out.shape(), strides, offset), out);
}

OnnxValue flip_onnx(OnnxCall& call, const FlipAttr& attr) {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < call.in[0].dim(); ++axis) {
    const bool has_elements = call.in[0].shape()[static_cast<std::size_t>(axis)] > 0;  // ONNX slices none backwards
    if (has_elements && (attr.axes >> axis & 1U) != 0) axes.push_back(axis);
  }
  if (axes.empty()) return call.operand(0);
  const std::vector<std::int64_t> backwards(axes.size(), -1), end(axes.size(), INT64_MIN);
  return call.add("Slice", {call.operand(0), call.integers(backwards), call.integers(end), call.integers(axes),
                            call.integers(backwards)});
}

constinit const OpDef<FlipAttr> flip_op{.name = "flip",
                                        .infer =
                                            [](Operands in, const FlipAttr&) {
                                              return TensorSpec{in[0].shape(), in[0].dtype()};
                                            },
                                        .cpu = flip_kernel,
                                        .cuda = ADJOINT_IF_CUDA(flip_kernel),
                                        .strided = true,
                                        .formats = Formats::kAnyStrides,
                                        .onnx = flip_onnx,
                                        .vjp = {{{.rule = [](const Ctx<FlipAttr>& c) {
                                          return apply(flip_op, {c.grad}, c.attr);
                                        }}}}};

unsigned set_of_axes(const char* op, const Dims& axes, const Shape& shape) {
  unsigned set = 0;
  for (const std::int64_t axis : axes) {
    const unsigned bit = 1U << resolve_axis(op, axis, shape.size());
    ADJOINT_CHECK((set & bit) == 0, "{}: axes must differ; got {} for x {}", op, axes, shape);
    set |= bit;
  }
  return set;
}

OnnxValue repeat_onnx(OnnxCall& call, const Dims& repeats) {
  std::vector<std::int64_t> added;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(repeats.size()) - call.in[0].dim(); ++axis)
    added.push_back(axis);
  const OnnxValue x = call.operand(0);
  if (repeats.empty()) return x;
  const OnnxValue whole = added.empty() ? x : call.add("Unsqueeze", {x, call.integers(added)});
  return call.add("Tile", {whole, call.integers(std::vector(repeats.begin(), repeats.end()))});
}

// An axis (extent) becomes (1, extent), is expanded, and merged again: all axes together if the rank allows.
Tensor repeated(const Tensor& x, Shape from, const Shape& to, const Dims& repeats) {
  Tensor result = x.reshape(from);
  if (2 * from.size() <= kMaxRank) {
    Shape apart, expanded;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      apart.push_back(1);
      expanded.push_back(repeats[axis]);
      apart.push_back(from[axis]);
      expanded.push_back(from[axis]);
    }
    result = result.reshape(apart).expand(expanded).reshape(to);
  } else {
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (repeats[axis] == 1) continue;
      const std::int64_t outer = Shape(from.begin(), from.begin() + axis).numel();
      const std::int64_t inner = Shape(from.begin() + axis, from.end()).numel();
      from[axis] = to[axis];
      result = result.reshape({outer, 1, inner}).expand({outer, repeats[axis], inner}).reshape(from);
    }
  }
  return result.impl()->storage == x.impl()->storage ? result.clone() : result;
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& axes) {
  const OpScope scope("flip");
  check_defined("flip", "x", x);
  return apply(flip_op, {x}, {set_of_axes("flip", axes, x.shape())});
}

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  const OpScope scope("movedim");
  check_defined("movedim", "x", x);
  ADJOINT_CHECK(source.size() == destination.size(),
                "movedim: source and destination must name as many axes; got {} and {} for x {}", source, destination,
                x.shape());
  const std::size_t rank = x.shape().size();
  const unsigned moved = set_of_axes("movedim", source, x.shape());
  set_of_axes("movedim", destination, x.shape());
  Dims axes = Dims::filled(rank, -1);
  for (std::size_t i = 0; i < source.size(); ++i) {
    axes[resolve_axis("movedim", destination[i], rank)] =
        static_cast<std::int64_t>(resolve_axis("movedim", source[i], rank));
  }
  std::size_t next = 0;
  for (std::int64_t& axis : axes) {
    if (axis >= 0) continue;
    while ((moved >> next & 1U) != 0) ++next;
    axis = static_cast<std::int64_t>(next++);
  }
  return x.permute(axes);
}

Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes) {
  const OpScope scope("unflatten");
  check_defined("unflatten", "x", x);
  const std::size_t at = resolve_axis("unflatten", axis, x.shape().size());
  ADJOINT_CHECK(!sizes.empty(), "unflatten: there must be an extent at least; got {} for axis {} of x {}", sizes, axis,
                x.shape());
  const std::int64_t extent = x.shape()[at];
  Shape resolved = sizes;
  std::int64_t known = 1, unknown = 0;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    unknown += size == -1 ? 1 : 0;
    fits = fits && size >= -1 && (size == -1 || !__builtin_mul_overflow(known, size, &known));
  }
  fits = fits && unknown <= 1 && (unknown == 0 || (known > 0 && extent % known == 0));
  for (std::int64_t& size : resolved) {
    if (fits && size == -1) size = extent / known;
  }
  ADJOINT_CHECK(fits && (unknown == 1 || known == extent),
                "unflatten: extents, of which one may be -1, must multiply to the axis's; got {} for axis {} of x {}",
                sizes, axis, x.shape());
  const std::int64_t* extents = x.shape().begin();
  Shape shape(extents, extents + at);
  for (const std::int64_t size : resolved) shape.push_back(size);
  for (std::size_t i = at + 1; i < x.shape().size(); ++i) shape.push_back(extents[i]);
  return x.reshape(shape);
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const OpScope scope("repeat");
  check_defined("repeat", "x", x);
  ADJOINT_CHECK(repeats.size() >= x.shape().size(),
                "repeat: there must be a number for each of x's axes at least; got {} for x {}", repeats, x.shape());
  Shape from = Dims::filled(repeats.size() - x.shape().size(), 1);
  for (const std::int64_t extent : x.shape()) from.push_back(extent);
  Shape to = from;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    ADJOINT_CHECK(repeats[axis] >= 0 && !__builtin_mul_overflow(from[axis], repeats[axis], &to[axis]),
                  "repeat: repeats must not be negative, and extents must fit in 63 bits; got {} for x {}", repeats,
                  x.shape());
  }
  return detail::as_one_call(
      "repeat", repeat_onnx, repeats, [&] { return repeated(x, from, to, repeats); }, x);
}

}  // namespace adjoint
