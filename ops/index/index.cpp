// Python's x[...]: views first, then the tensors that pick from the view.
#include <adjoint/ops/index/index.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/index/pick.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <utility>

namespace adjoint {
namespace {

// ONNX counts negative indices from the end, too, so those of the first axis may stay.
OnnxValue combine_onnx(OnnxCall& call, const CombineAttr& attr) {
  if (!call.in[1].defined()) return call.operand(0);
  const OnnxValue extent = call.integers({attr.extent});
  return call.add("Add", {call.add("Mul", {call.operand(1), extent}), call.add("Mod", {call.operand(0), extent})});
}

constinit const OpDef<CombineAttr> combine_op{.name = "combine",
                                              .infer =
                                                  [](Operands in, const CombineAttr&) {
                                                    return TensorSpec{in[0].shape(), kInt64};
                                                  },
                                              .cpu = cpu::combine,
                                              .cuda = ADJOINT_IF_CUDA(cuda::combine),
                                              .strided = true,
                                              .optional = 1U << 1,
                                              .onnx = combine_onnx};

// The view after integers, slices and new axes, and the tensors that pick from it, with their axes in it.
struct Walk {
  const char* op;
  Tensor view;
  std::vector<std::pair<std::size_t, Tensor>> tensors;
  std::size_t at = 0;  // the next axis of the view

  void take_tensor(const Tensor& tensor) {
    check_defined(op, "an index", tensor);
    const Tensor index = tensor.to(view.device());
    const auto axis = static_cast<std::int64_t>(at);
    if (index.dtype() != kBool) {
      ADJOINT_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32,
                    "{}: index tensors must be int64, int32 or bool; got {} of shape {}; convert with to()", op,
                    index.dtype(), index.shape());
      if (index.dim() == 0) {
        view = view.select(axis, index.to(kInt64).item<std::int64_t>());
      } else {
        tensors.emplace_back(at++, index);
      }
      return;
    }
    const Tensor places = nonzero(index);
    if (index.dim() == 0) {  // an axis with one element, or with zero
      view = view.unsqueeze(axis);
      tensors.emplace_back(at++, Tensor::zeros({places.size(0)}, places.options()));
      return;
    }
    const Shape& shape = view.shape();
    ADJOINT_CHECK(shape.size() >= at + index.shape().size() &&
                      Shape(shape.begin() + at, shape.begin() + at + index.shape().size()) == index.shape(),
                  "{}: a mask must have the shape of its axes; got {} from axis {} on of {}", op, index.shape(), at,
                  shape);
    for (std::int64_t k = 0; k < index.dim(); ++k) tensors.emplace_back(at++, places.select(1, k));
  }
};

// The number of axes of x that an index consumes.
std::size_t axes_of(const Index& index) {
  const Tensor& tensor = index.tensor();
  if (tensor.defined() && tensor.dtype() == kBool) return tensor.shape().size();
  return index.kind() == Index::Kind::kRest || index.kind() == Index::Kind::kNew ? 0 : 1;
}

Walk walk(const char* op, const Tensor& x, const std::vector<Index>& indices) {
  check_defined(op, "x", x);
  std::size_t axes = 0, ellipses = 0;
  for (const Index& index : indices) {
    axes += axes_of(index);
    ellipses += index.kind() == Index::Kind::kRest ? 1 : 0;
  }
  ADJOINT_CHECK(axes <= x.shape().size() && ellipses <= 1,
                "{}: there must be no more indices than axes, and one ellipsis at most; got {} indices, {} ellipses "
                "for x {}",
                op, axes, ellipses, x.shape());
  Walk walk{.op = op, .view = x, .tensors = {}};
  for (const Index& index : indices) {
    const auto axis = static_cast<std::int64_t>(walk.at);
    const Slice& range = index.slice();
    switch (index.kind()) {
      case Index::Kind::kInteger: walk.view = walk.view.select(axis, *range.start); break;
      case Index::Kind::kSlice:
        walk.view = slice(walk.view, axis, range.start, range.end, range.step);
        ++walk.at;
        break;
      case Index::Kind::kRest: walk.at += x.shape().size() - axes; break;
      case Index::Kind::kNew:
        walk.view = walk.view.unsqueeze(axis);
        ++walk.at;
        break;
      case Index::Kind::kTensor: walk.take_tensor(index.tensor()); break;
    }
  }
  return walk;
}

// The tensors combined into one index into axes [first, last) of the view, if they are adjacent.
struct Picking {
  Tensor view;  // with its axes permuted if the tensors' axes were not adjacent
  Tensor index;
  IndexAttr attr;
};

Picking picking(const Walk& walk) {
  Shape rows;
  for (const auto& [axis, index] : walk.tensors) rows = broadcast_shapes(walk.op, rows, index.shape());
  Picking picking{.view = walk.view, .index = {}, .attr = {}};
  const std::size_t count = walk.tensors.size();
  std::size_t first = walk.tensors.front().first;
  if (walk.tensors.back().first != first + count - 1) {
    Dims in_front, to;
    for (const auto& [axis, index] : walk.tensors) {
      to.push_back(static_cast<std::int64_t>(in_front.size()));
      in_front.push_back(static_cast<std::int64_t>(axis));
    }
    picking.view = movedim(walk.view, in_front, to);
    first = 0;
  }
  for (std::size_t k = 0; k < count; ++k) {
    const std::int64_t extent = picking.view.shape()[first + k];
    const Tensor index = checked_index(walk.op, walk.tensors[k].second, -extent, extent).expand(rows);
    picking.index = apply(combine_op, {index, picking.index}, {extent});
  }
  picking.attr = row_attr(picking.view.shape(), first, first + count, rows);
  return picking;
}

// `value` broadcast to `shape`; leading axes of one element in excess of `shape` are dropped.
Tensor value_for(const Tensor& value, const Shape& shape) {
  Tensor fitting = value;
  while (fitting.dim() > static_cast<std::int64_t>(shape.size()) && fitting.size(0) == 1) fitting = fitting.squeeze(0);
  ADJOINT_CHECK(broadcast_shapes("index_put_", fitting.shape(), shape) == shape,
                "index_put_: value must broadcast to the selected elements; got value {} for {}", value.shape(), shape);
  return fitting.expand(shape);
}

// A trace does not follow writes to views, so all of x is written: `value` is at the elements' places in it.
Tensor& put_in_trace(Tensor& x, const std::vector<Index>& indices, const Tensor& value, bool adds) {
  const TensorOptions options{.dtype = kInt64, .device = x.device()};
  const Tensor places = index(Tensor::arange(x.numel(), options).reshape(x.shape()), indices);
  const Tensor at = places.reshape({places.numel()}), flat = x.reshape({x.numel()});
  const Tensor from = value_for(value, places.shape()).reshape(at.shape());
  const IndexAttr attr = row_attr(flat.shape(), 0, 1, at.shape());
  return x.copy_((adds ? accumulate(from, at, flat, attr) : put(flat, from, at, attr)).reshape(x.shape()));
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  const OpScope scope("index");
  const Walk found = walk("index", x, indices);
  if (found.tensors.empty()) return found.view;
  const Picking p = picking(found);
  return take(p.view, p.index, p.attr);
}

Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, const Tensor& value, bool adds) {
  const OpScope scope("index_put_");
  check_defined("index_put_", "x", x);
  check_defined("index_put_", "value", value);
  ADJOINT_CHECK(!adds || x.dtype() != kBool, "index_put_: a tensor that is added to must not be bool; got x {} {}",
                x.dtype(), x.shape());
  check_writable("index_put_", x, {&value, 1});
  const PauseTape pause;
  const Tensor given = value.detach().to(x.dtype()).to(x.device());
  const bool writes_view =
      std::any_of(indices.begin(), indices.end(), [](const Index& i) { return i.kind() != Index::Kind::kTensor; });
  if (writes_view && detail::CallTrace::of_functions() != nullptr) return put_in_trace(x, indices, given, adds);
  Walk found = walk("index_put_", x, indices);
  if (found.tensors.empty()) {
    const Tensor fitting = value_for(given, found.view.shape());
    adds ? found.view.add_(fitting) : found.view.copy_(fitting);
    return x;
  }
  const Picking p = picking(found);
  Tensor from = value_for(given, p.attr.picked);
  if (from.numel() == 0) return x;
  Tensor view = p.view;
  if (adds) {
    view.copy_(accumulate(from, p.index, view, p.attr));
    return x;
  }
  if (from.impl()->storage == x.impl()->storage) from = from.clone();
  put_into(view, from, p.index, p.attr);
  return x;
}

Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, double value, bool adds) {
  const OpScope scope("index_put_");
  check_defined("index_put_", "x", x);
  const double fitting = fit_scalar("index_put_", value, x.dtype(), x.shape());
  return index_put_(x, indices, Tensor::full({}, fitting, x.options()), adds);
}

}  // namespace adjoint
