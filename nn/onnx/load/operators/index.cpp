// ONNX's operators that pick elements by index, and that compute indices.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/sort/sort.h>
#include <adjoint/ops/view/view.h>

#include <cmath>

namespace adjoint::nn::detail {
namespace {

// Operand i, int64. Throws Error for other operands than indices.
Tensor index_operand(const OnnxArgs& x, std::size_t i) {
  const DType dtype = x[i].dtype();
  if (dtype != kInt64 && dtype != kInt32) x.refuse(fmt::format("its indices must be int64 or int32; got {}", dtype));
  return x[i].to(kInt64);
}

// Negative indices count from the end.
Tensor from_start(const Tensor& index, std::int64_t extent) {
  return where(index < 0, index + Tensor::full({}, extent, index.options()), index);
}

// ---- Gather.

OnnxResults gathered(const OnnxArgs& x) {
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), x[0].dim());
  const Tensor rows = index_operand(x, 1);
  Shape shape(x[0].shape().begin(), x[0].shape().begin() + axis);
  for (const std::int64_t extent : rows.shape()) shape.push_back(extent);
  for (std::int64_t after = axis + 1; after < x[0].dim(); ++after) shape.push_back(x[0].size(after));
  return {index_select(x[0], axis, from_start(rows.reshape({rows.numel()}), x[0].size(axis))).reshape(shape)};
}

OnnxResults gathered_elements(const OnnxArgs& x) {
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), x[0].dim());
  return {gather(x[0], axis, from_start(index_operand(x, 1), x[0].size(axis)))};
}

// An index for each of the first axes: of `batch` axes a sample's own place, then the elements of `places`' last axis.
std::vector<Index> index_of(const OnnxArgs& x, const Tensor& places, std::int64_t batch) {
  const std::int64_t last = places.dim() - 1, count = last < 0 ? 0 : places.size(last);
  if (batch < 0 || batch > last || count < 1 || batch + count > x[0].dim())
    x.refuse(fmt::format("its indices' last axis must index the input's axes from {} on; got indices {}, input {}",
                         batch, places.shape(), x[0].shape()));
  std::vector<Index> indices;
  for (std::int64_t axis = 0; axis < batch; ++axis) {
    if (places.size(axis) != x[0].size(axis))
      x.refuse(fmt::format("its input and indices must have the same {} first extents; got {} and {}", batch,
                           x[0].shape(), places.shape()));
    Shape column = Dims::filled(static_cast<std::size_t>(last), 1);
    column[static_cast<std::size_t>(axis)] = places.size(axis);
    indices.emplace_back(Tensor::arange(places.size(axis), places.options()).reshape(column));
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const Tensor index = places.select(last, k);
    indices.emplace_back(last == 0 ? index.reshape({1}) : index);
  }
  return indices;
}

OnnxResults gathered_slices(const OnnxArgs& x) {
  const Tensor places = index_operand(x, 1);
  const Tensor found = index(x[0], index_of(x, places, x.integer("batch_dims", 0)));
  return {places.dim() == 1 ? found.squeeze(0) : found};
}

// ---- Scatter.

// `x` with x[index[i]] *= factors[i], along axis 0. A round handles one factor of each row, because rows may repeat.
Tensor scattered_product(Tensor x, const Tensor& index, const Tensor& factors) {
  const auto [rows, order] = sort(index, 0);
  const Tensor round = Tensor::arange(rows.numel(), rows.options()) - searchsorted(rows, rows);
  const std::int64_t rounds = rows.numel() == 0 ? 0 : round.max().item<std::int64_t>() + 1;
  for (std::int64_t i = 0; i < rounds; ++i) {
    const Tensor now = nonzero(round == i).squeeze(1), at = rows.index_select(0, now);
    const Tensor product = x.index_select(0, at) * factors.index_select(0, order.index_select(0, now));
    Shape column = Dims::filled(x.shape().size(), 1);
    column[0] = at.numel();
    x = scatter(x, 0, at.reshape(column).expand(product.shape()), product);
  }
  return x;
}

std::string reduction_of(const OnnxArgs& x) {
  const std::string reduction = x.text("reduction", "none");
  if (reduction != "none" && reduction != "add" && reduction != "mul")
    x.refuse(fmt::format("its reduction must be none, add or mul; got {}", reduction));
  return reduction;
}

OnnxResults scattered_elements(const OnnxArgs& x) {
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), x[0].dim());
  const Tensor index = from_start(index_operand(x, 1), x[0].size(axis));
  if (index.shape() != x[2].shape())
    x.refuse(fmt::format("its indices and updates must have one shape; got {} and {}", index.shape(), x[2].shape()));
  const std::string reduction = reduction_of(x);
  if (reduction == "none") return {scatter(x[0], axis, index, x[2])};
  if (reduction == "add") return {scatter_add(x[0], axis, index, x[2])};
  const Tensor places = Tensor::arange(x[0].numel(), index.options()).reshape(x[0].shape());
  const Tensor at = gather(places, axis, index).reshape({-1});
  return {scattered_product(x[0].reshape({-1}), at, x[2].reshape({-1})).reshape(x[0].shape())};
}

OnnxResults scattered_slices(const OnnxArgs& x) {
  const Tensor places = index_operand(x, 1);
  const std::vector<Index> indices = index_of(x, places, 0);
  const Shape& shape = x[0].shape();
  const auto indexed = static_cast<std::ptrdiff_t>(indices.size());
  const Shape leading(shape.begin(), shape.begin() + indexed), inner(shape.begin() + indexed, shape.end());
  Shape expected(places.shape().begin(), places.shape().end() - 1);
  for (const std::int64_t extent : inner) expected.push_back(extent);
  if (x[2].shape() != expected)
    x.refuse(fmt::format("its updates must have the shape {}; got {}", expected, x[2].shape()));
  // The numbers of the rows behind the indexed axes: index() checks each index, and counts negative ones from the end.
  const Tensor numbers = Tensor::arange(leading.numel(), places.options()).reshape(leading);
  const Tensor row = index(numbers, indices).reshape({-1});
  const Tensor base = x[0].reshape({leading.numel(), inner.numel()});
  const Tensor updates = x[2].reshape({row.numel(), inner.numel()});
  const std::string reduction = reduction_of(x);
  Tensor y;
  if (reduction == "none") y = scatter(base, 0, row.unsqueeze(1).expand(updates.shape()), updates);
  if (reduction == "add") y = index_add(base, 0, row, updates);
  if (reduction == "mul") y = scattered_product(base, row, updates);
  return {y.reshape(shape)};
}

// ---- Indices.

OnnxResults one_hot_values(const OnnxArgs& x) {
  const std::vector<double> depth = x.host_numbers(1);
  if (depth.size() != 1 || !(depth[0] >= 0.0 && depth[0] < 0x1p31))
    x.refuse(fmt::format("its depth must be one number from 0 on; got {}", fmt::join(depth, ", ")));
  if (x[2].shape() != Shape{2}) x.refuse(fmt::format("its values must be two numbers; got {}", x[2].shape()));
  const auto classes = static_cast<std::int64_t>(depth[0]);
  const std::int64_t axis = x.axis_of(x.integer("axis", -1), x[0].dim() + 1);
  const Tensor index = from_start(x[0].to(kInt64), classes).unsqueeze(axis);
  Shape column = Dims::filled(index.shape().size(), 1);
  column[static_cast<std::size_t>(axis)] = classes;
  const Tensor hot = Tensor::arange(classes, index.options()).reshape(column) == index;
  const Tensor values = x[2].to(index.device());
  return {where(hot, values.select(0, 1), values.select(0, 0))};
}

OnnxResults compressed(const OnnxArgs& x) {
  const bool flat = !x.has_attribute("axis");
  const Tensor from = flat ? x[0].reshape({x[0].numel()}) : x[0];
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), from.dim());
  if (x[1].dtype() != kBool || x[1].dim() != 1 || x[1].numel() > from.size(axis))
    x.refuse(fmt::format("its condition must be bool, of at most {} elements; got {} {}", from.size(axis), x[1].dtype(),
                         x[1].shape()));
  return {index_select(from, axis, nonzero(x[1]).squeeze(1))};
}

OnnxResults distinct(const OnnxArgs& x) {
  const bool flat = !x.has_attribute("axis");
  const Tensor from = flat ? x[0].reshape({x[0].numel()}) : x[0];
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), from.dim());
  auto [values, inverse, counts] = unique(from, flat ? std::nullopt : std::optional(axis));
  // The sort is stable, so that the first of each group's places is the least.
  Tensor first = argsort(inverse, 0).index_select(0, cumsum(counts, 0) - counts);
  if (x.integer("sorted", 1) == 0) {
    const Tensor order = argsort(first, 0);
    first = first.index_select(0, order);
    counts = counts.index_select(0, order);
    inverse = argsort(order, 0).index_select(0, inverse);
  }
  return {from.index_select(axis, first), first, inverse, counts};
}

OnnxResults reversed_sequences(const OnnxArgs& x) {
  const std::int64_t time = x.axis_of(x.integer("time_axis", 0), x[0].dim());
  const std::int64_t batch = x.axis_of(x.integer("batch_axis", 1), x[0].dim());
  const Tensor lengths = index_operand(x, 1);
  if (time == batch || lengths.shape() != Shape{x[0].size(batch)})
    x.refuse(fmt::format("it must have a length for each element of another axis than time's; got {} for {}",
                         lengths.shape(), x[0].shape()));
  Shape along_time = Dims::filled(x[0].shape().size(), 1), along_batch = along_time;
  along_time[static_cast<std::size_t>(time)] = x[0].size(time);
  along_batch[static_cast<std::size_t>(batch)] = x[0].size(batch);
  const Tensor step = Tensor::arange(x[0].size(time), lengths.options()).reshape(along_time);
  const Tensor length = lengths.reshape(along_batch);
  return {gather(x[0], time, where(step < length, length - 1 - step, step).expand(x[0].shape()))};
}

constexpr OnnxOperator kIndexOperators[] = {
    {.type = "Compress", .run = compressed, .attributes = "axis"},
    {.type = "Gather", .run = gathered, .attributes = "axis"},
    {.type = "GatherElements", .run = gathered_elements, .attributes = "axis"},
    {.type = "GatherND", .run = gathered_slices, .attributes = "batch_dims"},
    {.type = "NonZero", .run = [](const OnnxArgs& x) -> OnnxResults { return {nonzero(x[0]).transpose(0, 1)}; }},
    {.type = "OneHot", .run = one_hot_values, .attributes = "axis", .settings = 2 | 4},
    {.type = "ReverseSequence", .run = reversed_sequences, .attributes = "time_axis batch_axis"},
    {.type = "Scatter", .run = scattered_elements, .attributes = "axis"},
    {.type = "ScatterElements", .run = scattered_elements, .attributes = "axis reduction"},
    {.type = "ScatterND", .run = scattered_slices, .attributes = "reduction"},
    {.type = "Unique", .run = distinct, .attributes = "axis sorted"},
};

}  // namespace

std::span<const OnnxOperator> onnx_index_operators() { return kIndexOperators; }

}  // namespace adjoint::nn::detail
