// take, accumulate, put and their helpers: the operators behind every function that picks by index.
#include <adjoint/ops/index/pick.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/copy.h>

#include <algorithm>

namespace adjoint {
namespace {

// ONNX picks along one axis. The axes that an index names become one, and so do those of the index.
struct Merged {
  std::size_t axis;
  Shape whole, picked;

  // index_axes: the number of axes of an index with one row.
  Merged(const IndexAttr& attr, std::size_t index_axes) : axis(0), whole(attr.whole), picked(attr.picked) {
    const std::size_t rows = attr.layout.each ? 1 : index_axes, kept = picked.size() - rows;
    const std::size_t named = whole.size() - kept;
    const auto fits = [&] {
      return Shape(whole.begin(), whole.begin() + axis).numel() == attr.layout.outer &&
             Shape(whole.begin() + axis + named, whole.end()).numel() == attr.layout.inner &&
             std::equal(whole.begin(), whole.begin() + axis, picked.begin()) &&
             std::equal(whole.begin() + axis + named, whole.end(), picked.begin() + axis + rows);
    };
    while (axis < kept && !fits()) ++axis;
    merge(whole, named, attr.layout.extent);
    merge(picked, rows, attr.layout.count);
  }

 private:
  void merge(Shape& shape, std::size_t count, std::int64_t extent) const {
    for (std::size_t i = 0; i < count; ++i) shape.erase(axis);
    shape.insert(axis, extent);
  }
};

OnnxValue reshaped_onnx(OnnxCall& call, OnnxValue x, const Shape& from, const Shape& to) {
  return from == to ? x : call.reshape(x, to);
}

// Adds `picked`, or puts it in. The last of equal indices counts in ONNX Runtime, too.
OnnxValue scattered_onnx(OnnxCall& call, OnnxValue onto, std::size_t index_operand, const IndexAttr& attr, bool adds) {
  const Shape& index_shape = call.in[index_operand].shape();
  const Merged at(attr, index_shape.size());
  OnnxValue index = call.operand(index_operand);
  if (!attr.layout.each) {
    Shape row = Dims::filled(at.picked.size() - at.axis, 1), repeats = at.picked;
    row[0] = attr.layout.count;
    repeats[at.axis] = 1;
    index = reshaped_onnx(call, index, index_shape, row);
    if (row != at.picked) index = call.add("Expand", {index, call.integers(repeats)});
  }
  OnnxAttributes attributes{{"axis", static_cast<std::int64_t>(at.axis)}};
  if (adds) attributes.emplace_back("reduction", "add");
  const OnnxValue picked = reshaped_onnx(call, call.operand(adds ? 0 : 1), attr.picked, at.picked);
  const OnnxValue result =
      call.add("ScatterElements", {reshaped_onnx(call, onto, attr.whole, at.whole), index, picked}, attributes);
  return reshaped_onnx(call, result, at.whole, attr.whole);
}

OnnxValue accumulate_onnx(OnnxCall& call, const IndexAttr& attr) {
  const OnnxValue base = call.in[2].defined()
                             ? call.operand(2)
                             : call.add("Expand", {call.number(0, call.in[0].dtype()), call.integers(attr.whole)});
  return scattered_onnx(call, base, 1, attr, true);
}

constinit const OpDef<IndexAttr> take_op{.name = "take",
                                         .infer =
                                             [](Operands in, const IndexAttr& attr) {
                                               return TensorSpec{attr.picked, in[0].dtype()};
                                             },
                                         .cpu = cpu::take,
                                         .cuda = ADJOINT_IF_CUDA(cuda::take),
                                         .onnx = take_onnx,
                                         .vjp = {{{kSaveIn1, [](const Ctx<IndexAttr>& c) {
                                                     return accumulate(c.grad, c.in[1], {}, c.attr);
                                                   }}}}};

constinit const OpDef<IndexAttr> accumulate_op{
    .name = "accumulate",
    .infer =
        [](Operands in, const IndexAttr& attr) {
          return TensorSpec{attr.whole, in[0].dtype()};
        },
    .cpu = cpu::accumulate,
    .cuda = ADJOINT_IF_CUDA(cuda::accumulate),
    .optional = 1U << 2,
    .onnx = accumulate_onnx,
    .vjp = {{{kSaveIn1, [](const Ctx<IndexAttr>& c) { return take(c.grad, c.in[1], c.attr); }},
             {},
             {kSaveNone, [](const Ctx<IndexAttr>& c) { return c.grad; }}}}};

// index -> index with kNowhere in place of each one that a later one along `count` repeats.
constinit const OpDef<IndexAttr> last_of_equals_op{.name = "last_of_equals",
                                                   .infer =
                                                       [](Operands in, const IndexAttr&) {
                                                         return TensorSpec{in[0].shape(), in[0].dtype()};
                                                       },
                                                   .cpu = cpu::last_of_equals,
                                                   .cuda = ADJOINT_IF_CUDA(cuda::last_of_equals),
                                                   .onnx = [](OnnxCall& call,
                                                              const IndexAttr&) { return call.operand(0); }};

// For either device.
void put_kernel(Operands in, Tensor& out, const IndexAttr& attr) {
  if (in[0].raw_data() != out.raw_data()) copy_into(in[0], out);
  if (in[1].numel() == 0) return;
  const Tensor picked = contiguous_copy(in[1]), unique = contiguous_copy(in[2]);
#if defined(ADJOINT_WITH_CUDA)
  if (out.device().is_cuda()) return cuda::put(out, picked, unique, attr);
#endif
  cpu::put(out, picked, unique, attr);
}

// (x, picked, index without duplicates, the index as it was, for ONNX) -> x with picked put in.
constinit const OpDef<IndexAttr> put_op{
    .name = "scatter",
    .infer =
        [](Operands in, const IndexAttr& attr) {
          return TensorSpec{attr.whole, in[0].dtype()};
        },
    .cpu = put_kernel,
    .cuda = ADJOINT_IF_CUDA(put_kernel),
    .strided = true,
    .onnx = [](OnnxCall& call, const IndexAttr& attr) { return scattered_onnx(call, call.operand(0), 3, attr, false); },
    .vjp = {{{kSaveIn2,
              [](const Ctx<IndexAttr>& c) {
                const Tensor zeros = Tensor::zeros(c.attr.picked, c.grad.options());
                return apply(put_op, {c.grad, zeros, c.in[2], c.in[2]}, c.attr);
              }},
             {kSaveIn2, [](const Ctx<IndexAttr>& c) { return take(c.grad, c.in[2], c.attr); }}}}};

Tensor last_of_equals(const Tensor& index, const IndexAttr& attr) { return apply(last_of_equals_op, {index}, attr); }

}  // namespace

OnnxValue take_onnx(OnnxCall& call, const IndexAttr& attr) {
  const Merged at(attr, call.in[1].shape().size());
  const OnnxValue x = reshaped_onnx(call, call.operand(0), attr.whole, at.whole);
  return call.add(attr.layout.each ? "GatherElements" : "Gather", {x, call.operand(1)},
                  {{"axis", static_cast<std::int64_t>(at.axis)}});
}

Tensor take(const Tensor& x, const Tensor& index, const IndexAttr& attr) { return apply(take_op, {x, index}, attr); }

Tensor accumulate(const Tensor& picked, const Tensor& index, const Tensor& base, const IndexAttr& attr) {
  return apply(accumulate_op, {picked, index, base}, attr);
}

Tensor put(const Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr) {
  return apply(put_op, {x, picked, last_of_equals(index, attr), index}, attr);
}

void put_into(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr) {
  const std::array<Tensor, 4> operands{x, picked, last_of_equals(index, attr), index};
  apply_into(put_op, x, operands, attr);
}

namespace {

// The coordinates of element `i`, in row-major order.
Dims place_of(std::int64_t i, const Shape& shape) {
  Dims place = shape;
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) place[axis] = i % shape[axis];
  return place;
}

}  // namespace

Tensor checked_index(const char* op, const Tensor& index, std::int64_t low, std::int64_t high) {
  check_defined(op, "index", index);
  ADJOINT_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32,
                "{}: index must be int64 or int32; got {}; convert it with to(kInt64)", op, index.dtype());
  const Tensor wide = index.dtype() == kInt64 ? index : index.to(kInt64);
  if (wide.device().is_cuda()) return wide;
  constexpr std::int64_t kGrain = 1 << 16;
  const Tensor packed = wide.contiguous();
  detail::check_elements(op, packed, [=](const Tensor& values) {
    const auto* const data = values.data<std::int64_t>();
    parallel_ranges(values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto [least, most] = std::minmax_element(data + begin, data + end);
      if (*least >= low && *most < high) return;
      const auto* const outside = std::find_if(data + begin, data + end, [&](auto i) { return i < low || i >= high; });
      fail("{}: indices must lie in [{}, {}); got {} at {} of an index of shape {}", op, low, high, *outside,
           place_of(outside - data, values.shape()), values.shape());
    });
  });
  return packed;
}

IndexAttr row_attr(const Shape& whole, std::size_t first, std::size_t last, const Shape& rows) {
  const Shape before(whole.begin(), whole.begin() + first), after(whole.begin() + last, whole.end());
  Shape picked = before;
  for (const std::int64_t extent : rows) picked.push_back(extent);
  for (const std::int64_t extent : after) picked.push_back(extent);
  const std::int64_t outer = before.numel();
  return {{outer, Shape(whole.begin() + first, whole.begin() + last).numel(), after.numel(), rows.numel(),
           std::max<std::int64_t>(1, outer), false},
          whole,
          picked};
}

}  // namespace adjoint
