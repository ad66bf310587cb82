// index_select, gather, scatter, scatter_add and their like, embedding and one_hot.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/index/pick.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/reduce/reduce.h>

namespace adjoint {
namespace {

// (weight, indices, indices with kNowhere for padding) -> rows of weight.
constinit const OpDef<IndexAttr> embedding_op{.name = "embedding",
                                              .infer =
                                                  [](Operands in, const IndexAttr& attr) {
                                                    return TensorSpec{attr.picked, in[0].dtype()};
                                                  },
                                              .cpu = cpu::take,
                                              .cuda = ADJOINT_IF_CUDA(cuda::take),
                                              .onnx = take_onnx,
                                              .vjp = {{{kSaveIn2, [](const Ctx<IndexAttr>& c) {
                                                          return accumulate(c.grad, c.in[2], {}, c.attr);
                                                        }}}}};

// Turns a tensor without axes into one of one element.
Tensor with_axis(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

// Checks that there are as many axes, and no more elements along any but `free`.
void check_inside(const char* op, const char* name, const Shape& index, const Shape& other, std::size_t free) {
  bool fits = index.size() == other.size();
  for (std::size_t i = 0; fits && i < index.size(); ++i) fits = i == free || index[i] <= other[i];
  ADJOINT_CHECK(fits, "{}: index must have {}'s axes, and no more elements than it along any{}; got index {}, {} {}",
                op, name, free < index.size() ? " but the one that is picked from" : "", index, name, other);
}

// x's first elements along every axis except `axis`, as many as index has.
Tensor beside(const Tensor& x, const Shape& index, std::size_t axis) {
  Tensor part = x;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (i != axis && index[i] != x.shape()[i]) part = part.narrow(static_cast<std::int64_t>(i), 0, index[i]);
  }
  return part;
}

// Appends zeros to x's elements, up to `shape`.
Tensor padded_to(const Tensor& x, const Shape& shape) {
  std::vector<std::int64_t> padding;
  for (std::size_t i = shape.size(); i-- > 0;) {
    padding.push_back(0);
    padding.push_back(shape[i] - x.shape()[i]);
  }
  return pad(x, padding);
}

IndexAttr each_attr(const Shape& whole, const Shape& index, std::size_t axis) {
  return {{Shape(whole.begin(), whole.begin() + axis).numel(), whole[axis],
           Shape(whole.begin() + axis + 1, whole.end()).numel(), index[axis], 1, true},
          whole,
          index};
}

// The parts that scatter and scatter_add share.
struct Scattering {
  Tensor x, index, src;  // with at least one axis; src has index's shape
  std::size_t axis;
  IndexAttr attr;  // of the part of x that index reaches

  Scattering(const char* op, const Tensor& to, std::int64_t along, const Tensor& places, const Tensor& from) {
    check_defined(op, "x", to);
    check_defined(op, "index", places);
    check_defined(op, "src", from);
    ADJOINT_CHECK(to.dtype() == from.dtype(), "{}: x and src must share a dtype; got {} and {}; convert one with to()",
                  op, to.dtype(), from.dtype());
    x = with_axis(to);
    const Tensor given = with_axis(places);
    axis = resolve_axis(op, along, x.shape().size());
    src = with_axis(from);
    check_inside(op, "x", given.shape(), x.shape(), axis);
    check_inside(op, "src", given.shape(), src.shape(), kMaxRank);
    index = checked_index(op, given, 0, x.shape()[axis]);
    src = beside(src, index.shape(), kMaxRank);
    attr = each_attr(part().shape(), index.shape(), axis);
  }
  Tensor part() const { return beside(x, index.shape(), axis); }
  bool whole() const { return attr.whole == x.shape(); }
};

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index) {
  const OpScope scope("index_select");
  check_defined("index_select", "x", x);
  check_defined("index_select", "index", index);
  const Tensor from = with_axis(x);
  const std::size_t at = resolve_axis("index_select", axis, from.shape().size());
  ADJOINT_CHECK(index.dim() <= 1, "index_select: index must have one axis at most; got {} for x {}", index.shape(),
                x.shape());
  const Tensor rows = checked_index("index_select", with_axis(index), 0, from.shape()[at]);
  const Tensor picked = take(from, rows, row_attr(from.shape(), at, at + 1, rows.shape()));
  return x.dim() == 0 && picked.numel() == 1 ? picked.reshape({}) : picked;
}

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index) {
  const OpScope scope("gather");
  check_defined("gather", "x", x);
  check_defined("gather", "index", index);
  const Tensor given = with_axis(index), from = with_axis(x);
  const std::size_t at = resolve_axis("gather", axis, from.shape().size());
  check_inside("gather", "x", given.shape(), from.shape(), at);
  const Tensor names = checked_index("gather", given, 0, from.shape()[at]);
  const Tensor part = beside(from, names.shape(), at);
  const Tensor picked = take(part, names, each_attr(part.shape(), names.shape(), at));
  return picked.shape() == index.shape() ? picked : picked.reshape(index.shape());
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const OpScope scope("scatter");
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, {x, src}); cast) {
    return scatter(cast[0], axis, index, cast[1]);
  }
  const Scattering s("scatter", x, axis, index, src);
  Tensor result = put(s.part(), s.src, s.index, s.attr);
  if (!s.whole()) {
    const Tensor reached = padded_to(Tensor::ones(s.attr.whole, {.dtype = kBool, .device = x.device()}), s.x.shape());
    result = where(reached, padded_to(result, s.x.shape()), s.x);
  }
  return result.shape() == x.shape() ? result : result.reshape(x.shape());
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, double value) {
  const OpScope scope("scatter");
  check_defined("scatter", "x", x);
  check_defined("scatter", "index", index);
  const double fitting = fit_scalar("scatter", value, x.dtype(), x.shape());
  const Tensor src = Tensor::full({}, fitting, {.dtype = x.dtype(), .device = x.device()});
  return scatter(x, axis, index, src.expand(index.shape()));
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src) {
  const OpScope scope("scatter_add");
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, {x, src}); cast) {
    return scatter_add(cast[0], axis, index, cast[1]);
  }
  const Scattering s("scatter_add", x, axis, index, src);
  // If the index does not reach all of x, 16-bit results are rounded once, too.
  const auto beside_the_rest = [&] {
    const Tensor sums = accumulate(widened(s.src), s.index, {}, s.attr);
    return (widened(s.x) + padded_to(sums, s.x.shape())).to(s.x.dtype());
  };
  const Tensor result = s.whole() ? accumulate(s.src, s.index, s.x, s.attr) : beside_the_rest();
  return result.shape() == x.shape() ? result : result.reshape(x.shape());
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> axis) {
  const OpScope scope("take_along_dim");
  check_defined("take_along_dim", "x", x);
  check_defined("take_along_dim", "index", index);
  if (!axis) return gather(x.reshape({x.numel()}), 0, index.reshape({index.numel()}));
  const Tensor from = with_axis(x), names = with_axis(index);
  ADJOINT_CHECK(from.dim() == names.dim(), "take_along_dim: index must have as many axes as x; got index {}, x {}",
                index.shape(), x.shape());
  const std::size_t at = resolve_axis("take_along_dim", *axis, from.shape().size());
  Shape whole = from.shape(), picked = names.shape();
  whole[at] = picked[at] = 1;
  whole = picked = broadcast_shapes("take_along_dim", whole, picked);
  whole[at] = from.shape()[at];
  picked[at] = names.shape()[at];
  return gather(from.expand(whole), static_cast<std::int64_t>(at), names.expand(picked));
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src, const Scalar& alpha) {
  const OpScope scope("index_add");
  if (const detail::AutocastCall cast(MixedPrecision::kWidest, {x, src}); cast) {
    return index_add(cast[0], axis, index, cast[1], alpha);
  }
  check_defined("index_add", "x", x);
  check_defined("index_add", "index", index);
  check_defined("index_add", "src", src);
  const Tensor to = with_axis(x), from = with_axis(src), names = with_axis(index);
  const std::size_t at = resolve_axis("index_add", axis, to.shape().size());
  Shape fitting = to.shape();
  fitting[at] = names.numel();
  ADJOINT_CHECK(names.dim() == 1 && from.shape() == fitting && src.dtype() == x.dtype(),
                "index_add: index must have one axis, and src x's dtype and shape with as many elements as it along "
                "axis {}; got index {}, src {} {}, x {} {}",
                axis, index.shape(), src.dtype(), src.shape(), x.dtype(), x.shape());
  const double factor = fit_scalar("index_add", alpha, x.dtype(), x.shape());
  const Tensor rows = checked_index("index_add", names, 0, to.shape()[at]);
  const IndexAttr attr = row_attr(to.shape(), at, at + 1, rows.shape());
  const Tensor wide = widened(from);
  const Tensor added = factor == 1.0 ? wide : wide * Tensor::full({}, factor, wide.options());
  return accumulate(added, rows, widened(to), attr).to(x.dtype()).reshape(x.shape());
}

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  const OpScope scope("embedding");
  check_defined("embedding", "indices", indices);
  check_defined("embedding", "weight", weight);
  ADJOINT_CHECK(weight.dim() >= 1, "embedding: weight must have an axis at least; got {}", weight.shape());
  const std::int64_t rows = weight.shape()[0];
  const Tensor index = checked_index("embedding", indices, 0, rows);
  const IndexAttr attr = row_attr(weight.shape(), 0, 1, index.shape());
  if (!padding_idx) return take(weight, index, attr);
  ADJOINT_CHECK(*padding_idx >= -rows && *padding_idx < rows,
                "embedding: padding_idx must be one of weight's rows; got {} for weight {}", *padding_idx,
                weight.shape());
  const std::int64_t padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  const auto scalar = [&](std::int64_t value) {
    return Tensor::full({}, static_cast<double>(value), {.dtype = kInt64, .device = index.device()});
  };
  return apply(embedding_op, {weight, index, where(index == scalar(padding), scalar(kNowhere), index)}, attr);
}

Tensor& embedding_renorm_(Tensor& weight, const Tensor& indices, double max_norm, double norm_type) {
  const OpScope scope("embedding_renorm_");
  check_defined("embedding_renorm_", "weight", weight);
  check_defined("embedding_renorm_", "indices", indices);
  check_floating("embedding_renorm_", weight.dtype());
  ADJOINT_CHECK(weight.dim() >= 1, "embedding_renorm_: weight must have an axis at least; got {}", weight.shape());
  ADJOINT_CHECK(max_norm >= 0.0, "embedding_renorm_: max_norm must not be negative; got {}", max_norm);
  const Tensor index = checked_index("embedding_renorm_", indices, 0, weight.shape()[0]).reshape({indices.numel()});
  const PauseTape unrecorded;  // leaves may be written too, while a tape records
  check_writable("embedding_renorm_", weight);
  if (index.numel() == 0 || weight.numel() == 0) return weight;
  const Tensor picked = index_select(weight.detach(), 0, index), rows = picked.reshape({index.numel(), -1});
  const Tensor norms = norm(rows, norm_type, {1}, true);
  // PyTorch's constant, which avoids division by a norm of 0.
  const Tensor scaled = where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows);
  return index_put_(weight, {index}, scaled.reshape(picked.shape()));  // equal indices write equal rows
}

Tensor one_hot(const Tensor& indices, std::int64_t num_classes) {
  const OpScope scope("one_hot");
  check_defined("one_hot", "indices", indices);
  ADJOINT_CHECK(num_classes >= -1 && (num_classes > 0 || indices.numel() > 0 || num_classes == 0),
                "one_hot: num_classes must be positive, or -1 to count the classes of existing indices; got {} for "
                "indices {}",
                num_classes, indices.shape());
  std::int64_t classes = num_classes;
  if (classes == -1) {
    const Tensor largest = checked_index("one_hot", indices, 0, std::numeric_limits<std::int64_t>::max()).max();
    classes = largest.item<std::int64_t>() + 1;
  }
  const Tensor index = checked_index("one_hot", indices, 0, classes);
  const Tensor all =
      Tensor::arange(0.0, static_cast<double>(classes), 1.0, {.dtype = kInt64, .device = index.device()});
  return (index.unsqueeze(-1) == all).to(kInt64);
}

}  // namespace adjoint
