// ONNX's operators that compute shapes and move elements.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/view/diagonal.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <numeric>

namespace adjoint::nn::detail {
namespace {

using Integers = std::vector<std::int64_t>;

// The axes of a tensor of `rank` axes that a node names, each once, in ascending order.
Integers distinct_axes(const OnnxArgs& x, Integers axes, std::int64_t rank) {
  for (std::int64_t& axis : axes) axis = x.axis_of(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) x.refuse("its axes must differ");
  return axes;
}

// ---- Shapes.

OnnxResults shape_of(const OnnxArgs& x) {
  const std::int64_t rank = x[0].dim();
  const auto place = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = x.integer(name, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = place("start", 0), end = std::max(start, place("end", rank));
  const Shape& shape = x[0].shape();
  return {Tensor::from_vector(Integers(shape.begin() + start, shape.begin() + end), {end - start})};
}

OnnxResults constant(const OnnxArgs& x) {
  if (x.node.attributes.size() != 1) x.refuse("it must have one value");
  if (x.has_attribute("value")) return {x.tensor("value")};
  if (x.has_attribute("value_int")) return {Tensor::full({}, x.integer("value_int", 0), {.dtype = kInt64})};
  if (x.has_attribute("value_float")) return {Tensor::full({}, x.number("value_float", 0.0), {.dtype = kFloat32})};
  if (x.has_attribute("value_ints")) {
    const Integers values = x.integers("value_ints");
    return {Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())})};
  }
  const std::vector<double> values = x.numbers("value_floats");
  return {Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = kFloat32})};
}

OnnxResults constant_of_shape(const OnnxArgs& x) {
  const Tensor value = x.has_attribute("value") ? x.tensor("value") : Tensor::zeros({1});
  if (value.numel() != 1) x.refuse(fmt::format("its value must have one element; got {}", value.shape()));
  return {value.reshape({}).expand(Shape(x.host_integers(0)))};
}

OnnxResults reshaped(const OnnxArgs& x) {
  Integers shape = x.host_integers(1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 0 || x.integer("allowzero", 0) != 0) continue;
    if (i >= x[0].shape().size()) x.refuse("a 0 in the shape must stand for one of the input's extents");
    shape[i] = x[0].shape()[i];
  }
  return {x[0].reshape(Shape(shape))};
}

OnnxResults flattened(const OnnxArgs& x) {
  const Shape& shape = x[0].shape();
  const std::int64_t rank = x[0].dim(), given = x.integer("axis", 1);
  const std::int64_t axis = given == rank ? rank : x.axis_of(given, rank);
  const std::int64_t rows = Shape(shape.begin(), shape.begin() + axis).numel();
  return {x[0].reshape({rows, Shape(shape.begin() + axis, shape.end()).numel()})};
}

OnnxResults squeezed(const OnnxArgs& x) {
  const Shape& shape = x[0].shape();
  Integers axes = distinct_axes(x, x.axes("axes", 1), x[0].dim());
  if (!x.has(1) && !x.has_attribute("axes")) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
  }
  Shape result = shape;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const auto at = static_cast<std::size_t>(*axis);
    if (shape[at] != 1) x.refuse(fmt::format("its axes must have one element; got {} of {}", *axis, shape));
    result.erase(at);
  }
  return {x[0].reshape(result)};
}

OnnxResults unsqueezed(const OnnxArgs& x) {
  const Integers given = x.axes("axes", 1);
  Tensor y = x[0];
  for (const std::int64_t axis : distinct_axes(x, given, y.dim() + static_cast<std::int64_t>(given.size())))
    y = y.unsqueeze(axis);
  return {y};
}

OnnxResults transposed(const OnnxArgs& x) {
  Integers order(x[0].shape().size());
  std::iota(order.rbegin(), order.rend(), 0);
  return {x[0].permute(Dims(x.integers("perm", order)))};
}

OnnxResults expanded(const OnnxArgs& x) {
  return {x[0].expand(broadcast_shapes("Expand", x[0].shape(), Shape(x.host_integers(1))))};
}

OnnxResults tiled(const OnnxArgs& x) {
  const Integers repeats = x.host_integers(1);
  if (static_cast<std::int64_t>(repeats.size()) != x[0].dim())
    x.refuse(fmt::format("it must have one repeat for each axis; got {} for {}", repeats.size(), x[0].shape()));
  return {repeat(x[0], Dims(repeats))};
}

// ---- Parts.

OnnxResults concatenated(const OnnxArgs& x) {
  if (!x.has_attribute("axis")) x.refuse("its attribute axis is missing");
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < x.in.size(); ++i) parts.push_back(x[i]);
  return {cat(parts, x.integer("axis", 0))};
}

OnnxResults split_parts(const OnnxArgs& x) {
  const std::int64_t axis = x.axis_of(x.integer("axis", 0), x[0].dim());
  const auto count = static_cast<std::int64_t>(x.node.outputs.size());
  if (x.has(1) || x.has_attribute("split")) return split(x[0], x.axes("split", 1), axis);
  const std::int64_t extent = x[0].size(axis);
  if (count < 1 || extent % count != 0)
    x.refuse(fmt::format("its {} outputs must divide the axis; got axis {} of {}", count, axis, x[0].shape()));
  return split(x[0], Integers(static_cast<std::size_t>(count), extent / count), axis);
}

// Elements start, start + step, ... before `end` along an axis. A step may be negative. ONNX clamps ends so that a
// negative step begins in the axis.
Tensor sliced(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t extent = x.size(axis);
  if (extent == 0) return x;
  step = std::clamp(step, -extent, extent);
  start = std::clamp<std::int64_t>(start < 0 ? start + extent : start, 0, step > 0 ? extent : extent - 1);
  end = std::clamp<std::int64_t>(end < 0 ? end + extent : end, step > 0 ? 0 : -1, extent);
  if (step > 0) return slice(x, axis, start, std::max(start, end), step);
  if (start <= end) return slice(x, axis, 0, 0);
  const std::int64_t last = start + (start - end - 1) / -step * step;
  return flip(slice(x, axis, last, start + 1, -step), {axis});
}

OnnxResults slices(const OnnxArgs& x) {
  const Integers starts = x.host_integers(1), ends = x.host_integers(2);
  Integers axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (x.has(3)) axes = x.host_integers(3);
  if (x.has(4)) steps = x.host_integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    x.refuse(fmt::format("its starts, ends, axes and steps must be as many; got {}, {}, {} and {}", starts.size(),
                         ends.size(), axes.size(), steps.size()));
  distinct_axes(x, axes, x[0].dim());
  Tensor y = x[0];
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) x.refuse("its steps must not be 0");
    y = sliced(y, x.axis_of(axes[i], y.dim()), starts[i], ends[i], steps[i]);
  }
  return {y};
}

OnnxResults padded(const OnnxArgs& x) {
  const Integers pads = x.host_integers(1);
  const std::size_t rank = x[0].shape().size();
  if (pads.size() != 2 * rank)
    x.refuse(fmt::format("its pads must be two for each axis; got {} for {}", pads.size(), x[0].shape()));
  Integers pairs;  // the last axis first
  for (std::size_t axis = rank; axis-- > 0;) pairs.insert(pairs.end(), {pads[axis], pads[rank + axis]});
  const std::string mode = x.text("mode", "constant");
  if (mode == "reflect") return {pad(x[0], pairs, PadMode::kReflect)};
  if (mode == "edge") return {pad(x[0], pairs, PadMode::kReplicate)};
  if (mode != "constant") x.refuse(fmt::format("its mode must be constant, reflect or edge; got {}", mode));
  const std::vector<double> value = x.has(2) ? x.host_numbers(2) : std::vector<double>{0.0};
  if (value.size() != 1) x.refuse(fmt::format("its constant_value must be one number; got {}", value.size()));
  return {pad(x[0], pairs, value[0])};
}

// ---- Matrices and images.

OnnxResults triangle(const OnnxArgs& x) {
  const Integers offset = x.has(1) ? x.host_integers(1) : Integers{0};
  if (offset.size() != 1) x.refuse(fmt::format("its k must be one number; got {}", offset.size()));
  return {x.integer("upper", 1) != 0 ? triu(x[0], offset[0]) : tril(x[0], offset[0])};
}

OnnxResults eye_like(const OnnxArgs& x) {
  if (x[0].dim() != 2) x.refuse(fmt::format("its input must be a matrix; got {}", x[0].shape()));
  const DType dtype = x.has_attribute("dtype") ? dtype_of_onnx(x.integer("dtype", 0), "EyeLike") : x[0].dtype();
  const TensorOptions options{.dtype = kInt64, .device = x[0].device()};
  const Tensor rows = Tensor::arange(x[0].size(0), options).unsqueeze(1);
  return {(Tensor::arange(x[0].size(1), options) - rows == x.integer("k", 0)).to(dtype)};
}

// The blocks' size, which divides the extents of these axes.
std::int64_t block_size(const OnnxArgs& x, bool divides_channels) {
  const Shape& shape = x[0].shape();
  const std::int64_t block = x.integer("blocksize", 0);
  bool fits = shape.size() == 4 && block >= 1 && block < (std::int64_t{1} << 31);
  if (divides_channels) fits = fits && shape[1] % (block * block) == 0;
  if (!divides_channels) fits = fits && shape[2] % block == 0 && shape[3] % block == 0;
  if (!fits) x.refuse(fmt::format("its input must be (N, C, H, W), in blocks of {}; got {}", block, shape));
  return block;
}

OnnxResults depth_to_space(const OnnxArgs& x) {
  const std::int64_t block = block_size(x, true);
  const std::string mode = x.text("mode", "DCR");
  if (mode == "CRD") return {pixel_shuffle(x[0], block)};
  if (mode != "DCR") x.refuse(fmt::format("its mode must be DCR or CRD; got {}", mode));
  const std::int64_t n = x[0].size(0), c = x[0].size(1) / (block * block), h = x[0].size(2), w = x[0].size(3);
  return {x[0].reshape({n, block, block, c, h, w}).permute({0, 3, 4, 1, 5, 2}).reshape({n, c, h * block, w * block})};
}

OnnxResults space_to_depth(const OnnxArgs& x) {
  const std::int64_t block = block_size(x, false);
  const std::int64_t n = x[0].size(0), c = x[0].size(1), h = x[0].size(2) / block, w = x[0].size(3) / block;
  return {x[0].reshape({n, c, h, block, w, block}).permute({0, 3, 5, 1, 2, 4}).reshape({n, block * block * c, h, w})};
}

constexpr OnnxOperator kShapeOperators[] = {
    {.type = "Concat", .run = concatenated, .attributes = "axis"},
    {.type = "Constant", .run = constant, .attributes = "value value_int value_ints value_float value_floats"},
    {.type = "ConstantOfShape", .run = constant_of_shape, .attributes = "value", .settings = 1},
    {.type = "DepthToSpace", .run = depth_to_space, .attributes = "blocksize mode"},
    {.type = "Expand", .run = expanded, .settings = 2},
    {.type = "EyeLike", .run = eye_like, .attributes = "dtype k"},
    {.type = "Flatten", .run = flattened, .attributes = "axis"},
    {.type = "Pad", .run = padded, .attributes = "mode", .settings = 2 | 4},
    {.type = "Reshape", .run = reshaped, .attributes = "allowzero", .settings = 2},
    {.type = "Shape", .run = shape_of, .attributes = "start end"},
    {.type = "Size",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {Tensor::full({}, x[0].numel(), {.dtype = kInt64})}; }},
    {.type = "Slice", .run = slices, .settings = 2 | 4 | 8 | 16},
    {.type = "SpaceToDepth", .run = space_to_depth, .attributes = "blocksize"},
    {.type = "Split", .run = split_parts, .attributes = "axis split", .settings = 2},
    {.type = "Squeeze", .run = squeezed, .attributes = "axes", .settings = 2},
    {.type = "Tile", .run = tiled, .settings = 2},
    {.type = "Transpose", .run = transposed, .attributes = "perm"},
    {.type = "Trilu", .run = triangle, .attributes = "upper", .settings = 2},
    {.type = "Unsqueeze", .run = unsqueezed, .attributes = "axes", .settings = 2},
};

}  // namespace

std::span<const OnnxOperator> onnx_shape_operators() { return kShapeOperators; }

}  // namespace adjoint::nn::detail
