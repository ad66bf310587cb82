// ONNX's convolutions and pooling.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/nn/onnx/load/operators/window.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/pool/pool.h>
#include <adjoint/ops/reduce/reduce.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace adjoint::nn::detail {
namespace {

using Values = std::vector<std::int64_t>;  // one for each axis

Size2 size2(const Values& values) { return {values[0], values[1]}; }
Size3 size3(const Values& values) { return {values[0], values[1], values[2]}; }

Tensor padded(const Tensor& x, const Values& before, const Values& after, double value = 0.0) {
  Values sides;  // the last axis first
  for (std::size_t axis = before.size(); axis-- > 0;) sides.insert(sides.end(), {before[axis], after[axis]});
  return pad(x, sides, value);
}

// ---- Convolutions.

OnnxAxes windows_of(const OnnxArgs& x) {
  const Shape& shape = x[1].shape();
  if (shape.size() != x[0].shape().size() || shape.size() < 3)
    x.refuse(
        fmt::format("its input and weight must have as many axes, at least 3; got {} and {}", x[0].shape(), shape));
  const Values taps(shape.begin() + 2, shape.end());
  if (x.integers("kernel_shape", taps) != taps)
    x.refuse(fmt::format("its kernel_shape must be the weight's; got {} for {}",
                         fmt::join(x.integers("kernel_shape"), ", "), shape));
  return onnx_axes(x, taps);
}

OnnxResults convolved(const OnnxArgs& x) {
  const OnnxAxes w = windows_of(x);
  const std::int64_t groups = x.integer("group", 1);
  Values padding = w.before;
  Tensor input = x[0];
  // All of the padding of a volume's time may be in front.
  const bool causal = w.count() == 3 && w.after[0] == 0 && w.before[0] > 0 && w.before[0] % 2 == 0 &&
                      std::equal(w.before.begin() + 1, w.before.end(), w.after.begin() + 1);
  if (causal) {
    padding[0] /= 2;
  } else if (w.before != w.after) {
    input = padded(input, w.before, w.after);
    padding.assign(w.count(), 0);
  }
  const Tensor &weight = x[1], bias = x.optional(2);
  switch (w.count()) {
    case 1:
      return {conv1d(input, weight, bias,
                     {.stride = w.stride[0], .padding = padding[0], .dilation = w.dilation[0], .groups = groups})};
    case 2:
      return {conv2d(
          input, weight, bias,
          {.stride = size2(w.stride), .padding = size2(padding), .dilation = size2(w.dilation), .groups = groups})};
    default:
      return {conv3d(input, weight, bias,
                     {.stride = size3(w.stride),
                      .padding = size3(padding),
                      .dilation = size3(w.dilation),
                      .groups = groups,
                      .causal = causal})};
  }
}

Tensor conv_transposed(const OnnxArgs& x, const Tensor& bias, const OnnxAxes& w, const Values& padding,
                       const Values& extra) {
  const std::int64_t groups = x.integer("group", 1);
  switch (w.count()) {
    case 1:
      return conv_transpose1d(x[0], x[1], bias,
                              {.stride = w.stride[0],
                               .padding = padding[0],
                               .output_padding = extra[0],
                               .dilation = w.dilation[0],
                               .groups = groups});
    case 2:
      return conv_transpose2d(x[0], x[1], bias,
                              {.stride = size2(w.stride),
                               .padding = size2(padding),
                               .output_padding = size2(extra),
                               .dilation = size2(w.dilation),
                               .groups = groups});
    default:
      return conv_transpose3d(x[0], x[1], bias,
                              {.stride = size3(w.stride),
                               .padding = size3(padding),
                               .output_padding = size3(extra),
                               .dilation = size3(w.dilation),
                               .groups = groups});
  }
}

// Rounds down, also below 0.
std::int64_t half(std::int64_t total) { return total >> 1; }

OnnxResults convolved_transposed(const OnnxArgs& x) {
  const OnnxAxes w = windows_of(x);
  const std::size_t axes = w.count();
  const Values extra = onnx_values(x, "output_padding", axes, 0, 0), none(axes, 0);
  Values before = w.before, after = w.after;
  const std::string automatic = x.text("auto_pad", "NOTSET");
  const bool given = x.has_attribute("output_shape"), upper = automatic == "SAME_UPPER";
  if (given || upper || automatic == "SAME_LOWER") {
    const Values shape = given ? onnx_values(x, "output_shape", axes, 1, 1) : none;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t in = x[0].size(static_cast<std::int64_t>(i) + 2);
      const std::int64_t out = given ? shape[i] : in * w.stride[i];
      const std::int64_t total = w.stride[i] * (in - 1) + extra[i] + w.extent(i) - out;
      before[i] = half(total);
      after[i] = total - before[i];
    }
    if (!upper) std::swap(before, after);
  }
  const Tensor bias = x.optional(2);
  if (before == after && *std::min_element(before.begin(), before.end()) >= 0)
    return {conv_transposed(x, bias, w, before, extra)};
  // The pads cut the whole result or extend it. The elements that they add have the bias too.
  Values first(axes), last(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    first[i] = -before[i];
    last[i] = extra[i] - after[i];
  }
  const Tensor y = padded(conv_transposed(x, {}, w, none, none), first, last);
  if (!bias.defined()) return {y};
  Shape of_channels(Dims::filled(axes + 1, 1));
  of_channels[0] = y.size(1);
  return {y + bias.reshape(of_channels)};
}

// ---- Pooling.

OnnxAxes pooling_windows(const OnnxArgs& x) { return onnx_axes(x, x.integers("kernel_shape")); }
bool in_ceil_mode(const OnnxArgs& x) { return x.integer("ceil_mode", 0) != 0; }

// The padding behind each axis that makes room for its last window. In ceil mode the last window begins before the end
// of the input, as in PyTorch.
Values behind(const OnnxArgs& x, const OnnxAxes& w) {
  Values behind = w.after;
  for (std::size_t i = 0; i < w.count(); ++i) {
    const std::int64_t in = x[0].size(static_cast<std::int64_t>(i) + 2), stride = w.stride[i];
    const std::int64_t room = in + w.before[i] + w.after[i] - w.extent(i);
    if (!in_ceil_mode(x) || room < 0) continue;
    std::int64_t windows = (room + stride - 1) / stride + 1;
    if ((windows - 1) * stride >= in + w.before[i]) --windows;
    behind[i] = (windows - 1) * stride + w.extent(i) - in - w.before[i];
  }
  return behind;
}

// Returns true if the library's pooling has this padding.
bool takes_padding(const OnnxAxes& w) {
  for (std::size_t i = 0; i < w.count(); ++i) {
    if (w.before[i] != w.after[i] || 2 * w.before[i] > w.extent(i)) return false;
  }
  return true;
}

// Converts indices into the planes of an image with `padding` in front to indices into the whole input.
Tensor places_in_input(const OnnxArgs& x, const Tensor& places, const Values& padding, const Shape& padded) {
  const Shape& shape = x[0].shape();
  Shape of_planes(Dims::filled(shape.size(), 1));
  of_planes[0] = shape[0];
  of_planes[1] = shape[1];
  Tensor rest = places, whole = Tensor::arange(shape[0] * shape[1], places.options()).reshape(of_planes);
  std::vector<Tensor> place;  // along each axis, the last axis first
  for (std::size_t axis = padding.size(); axis-- > 0;) {
    const Tensor quotient = floor_divide(rest, padded[axis + 2]);
    place.push_back(rest - quotient * padded[axis + 2] - padding[axis]);
    rest = quotient;
  }
  const bool last_axis_first = x.integer("storage_order", 0) != 0;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const std::size_t axis = last_axis_first ? padding.size() - 1 - i : i;
    whole = whole * shape[axis + 2] + place[padding.size() - 1 - axis];
  }
  return whole;
}

// The maxima of windows, and their places if `with_indices`.
std::pair<Tensor, Tensor> maxima(const Tensor& x, const OnnxAxes& w, const Values& padding, bool ceil_mode,
                                 bool with_indices) {
  switch (w.count()) {
    case 1: {
      const MaxPool1dParams params{.stride = w.stride[0],
                                   .padding = padding[0],
                                   .dilation = w.dilation[0],
                                   .ceil_mode = ceil_mode};
      if (with_indices) return max_pool1d_with_indices(x, w.kernel[0], params);
      return {max_pool1d(x, w.kernel[0], params), Tensor()};
    }
    case 2: {
      const MaxPool2dParams params{.stride = size2(w.stride),
                                   .padding = size2(padding),
                                   .dilation = size2(w.dilation),
                                   .ceil_mode = ceil_mode};
      if (with_indices) return max_pool2d_with_indices(x, size2(w.kernel), params);
      return {max_pool2d(x, size2(w.kernel), params), Tensor()};
    }
    default: {
      const MaxPool3dParams params{.stride = size3(w.stride),
                                   .padding = size3(padding),
                                   .dilation = size3(w.dilation),
                                   .ceil_mode = ceil_mode};
      if (with_indices) return max_pool3d_with_indices(x, size3(w.kernel), params);
      return {max_pool3d(x, size3(w.kernel), params), Tensor()};
    }
  }
}

OnnxResults max_pooled(const OnnxArgs& x) {
  const OnnxAxes w = pooling_windows(x);
  const DType dtype = x[0].dtype();
  Tensor input = dtype == kUInt8 ? x[0].to(kFloat32) : x[0];  // float32 holds every uint8
  Values padding = w.before, in_front(w.count(), 0);
  bool ceil_mode = in_ceil_mode(x);
  if (!takes_padding(w)) {
    input = padded(input, w.before, behind(x, w), -std::numeric_limits<double>::infinity());
    std::swap(padding, in_front);
    ceil_mode = false;
  }
  const bool with_indices = x.node.outputs.size() > 1;
  const auto [y, places] = maxima(input, w, padding, ceil_mode, with_indices);
  if (!with_indices) return {y.to(dtype)};
  return {y.to(dtype), places_in_input(x, places, in_front, input.shape())};
}

Tensor means(const Tensor& x, const OnnxAxes& w, const Values& padding, bool ceil_mode, bool counts_padding) {
  switch (w.count()) {
    case 1:
      return avg_pool1d(
          x, w.kernel[0],
          {.stride = w.stride[0], .padding = padding[0], .ceil_mode = ceil_mode, .count_include_pad = counts_padding});
    case 2:
      return avg_pool2d(x, size2(w.kernel),
                        {.stride = size2(w.stride),
                         .padding = size2(padding),
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts_padding});
    default:
      return avg_pool3d(x, size3(w.kernel),
                        {.stride = size3(w.stride),
                         .padding = size3(padding),
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts_padding});
  }
}

// The means of windows of `input`, of operand 0's shape. `counts_padding`: the divisor counts the elements of the
// padding too.
Tensor averaged(const OnnxArgs& x, const Tensor& input, const OnnxAxes& w, bool counts_padding) {
  if (takes_padding(w)) return means(input, w, w.before, in_ceil_mode(x), counts_padding);
  // Zeros behind the pads complete the last window. The share of elements that count corrects the mean.
  const Values end = behind(x, w), none(w.count(), 0);
  Shape of_samples = input.shape();
  of_samples[0] = of_samples[1] = 1;
  Tensor counted = Tensor::ones(of_samples, input.options());
  if (counts_padding) {
    Values beyond = end;
    for (std::size_t i = 0; i < w.count(); ++i) beyond[i] -= w.after[i];
    counted = padded(padded(counted, w.before, w.after, 1.0), none, beyond);
  } else {
    counted = padded(counted, w.before, end);
  }
  return means(padded(input, w.before, end), w, none, false, true) / means(counted, w, none, false, true);
}

OnnxResults average_pooled(const OnnxArgs& x) {
  return {averaged(x, x[0], pooling_windows(x), x.integer("count_include_pad", 0) != 0)};
}

OnnxResults norm_pooled(const OnnxArgs& x) {
  const OnnxAxes w = pooling_windows(x);
  const auto p = static_cast<double>(x.integer("p", 2));
  if (p < 1.0) x.refuse(fmt::format("its p must be positive; got {}", p));
  double count = 1.0;
  for (const std::int64_t extent : w.kernel) count *= static_cast<double>(extent);
  return {(averaged(x, abs(x[0]).pow(p), w, true) * count).pow(1.0 / p)};
}

OnnxResults unpooled(const OnnxArgs& x) {
  const OnnxAxes w = pooling_windows(x);
  if (x[1].shape() != x[0].shape() || x[1].dtype() != kInt64)
    x.refuse(fmt::format("its indices must be int64, of the input's shape {}; got {} {}", x[0].shape(), x[1].dtype(),
                         x[1].shape()));
  Shape shape = x[0].shape();
  for (std::size_t i = 0; i < w.count(); ++i)
    shape[i + 2] = (shape[i + 2] - 1) * w.stride[i] + w.kernel[i] - w.before[i] - w.after[i];
  const Tensor zeros = Tensor::zeros({shape.numel()}, x[0].options());
  const Tensor y = scatter(zeros, 0, x[1].reshape({-1}), x[0].reshape({-1})).reshape(shape);
  if (!x.has(2)) return {y};
  const std::vector<std::int64_t> wanted = x.host_integers(2);
  if (static_cast<std::int64_t>(wanted.size()) != y.dim())
    x.refuse(fmt::format("its output_shape must have {} extents; got {}", y.dim(), fmt::join(wanted, ", ")));
  std::vector<std::int64_t> pads;
  for (std::int64_t axis = y.dim() - 1; axis >= 0; --axis) {
    const std::int64_t out = wanted[static_cast<std::size_t>(axis)];
    if (out < 0) x.refuse(fmt::format("its output_shape must be positive; got {}", fmt::join(wanted, ", ")));
    pads.insert(pads.end(), {0, out - y.size(axis)});
  }
  return {pad(y, pads)};
}

// The axes behind samples and channels.
Dims spatial_axes(const OnnxArgs& x) {
  if (x[0].dim() < 3) x.refuse(fmt::format("its input must be (N, C, ...); got {}", x[0].shape()));
  Dims axes;
  for (std::int64_t axis = 2; axis < x[0].dim(); ++axis) axes.push_back(axis);
  return axes;
}

constexpr OnnxOperator kLayerOperators[] = {
    {.type = "AveragePool",
     .run = average_pooled,
     .attributes = "auto_pad ceil_mode count_include_pad kernel_shape pads strides"},
    {.type = "Conv", .run = convolved, .attributes = "auto_pad dilations group kernel_shape pads strides"},
    {.type = "ConvTranspose",
     .run = convolved_transposed,
     .attributes = "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {.type = "GlobalAveragePool",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {x[0].mean(spatial_axes(x), true)}; }},
    {.type = "GlobalLpPool",
     .run = [](const OnnxArgs& x) -> OnnxResults {
       return {x[0].norm(static_cast<double>(x.integer("p", 2)), spatial_axes(x), true)};
     },
     .attributes = "p"},
    {.type = "GlobalMaxPool",
     .run = [](const OnnxArgs& x) -> OnnxResults { return {x[0].amax(spatial_axes(x), true)}; }},
    {.type = "LpPool", .run = norm_pooled, .attributes = "auto_pad kernel_shape p pads strides"},
    {.type = "MaxPool",
     .run = max_pooled,
     .attributes = "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {.type = "MaxUnpool", .run = unpooled, .attributes = "kernel_shape pads strides", .settings = 4},
};

}  // namespace

std::span<const OnnxOperator> onnx_layer_operators() { return kLayerOperators; }

}  // namespace adjoint::nn::detail
