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

#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace adjoint::nn::detail {
namespace {

Tensor padded_image(const Tensor& x, const Size2& before, const Size2& after, double value = 0.0) {
  return pad(x, {before.w, after.w, before.h, after.h}, value);
}

// ---- Convolutions.

struct Filter {
  OnnxWindow window;
  Tensor weight, bias;
};

Filter filter_of(const OnnxArgs& x) {
  const Shape& shape = x[1].shape();
  if (shape.size() != x[0].shape().size() || shape.size() < 3)
    x.refuse(
        fmt::format("its input and weight must have as many axes, at least 3; got {} and {}", x[0].shape(), shape));
  const std::vector<std::int64_t> taps(shape.begin() + 2, shape.end());
  if (x.integers("kernel_shape", taps) != taps)
    x.refuse(fmt::format("its kernel_shape must be the weight's; got {} for {}",
                         fmt::join(x.integers("kernel_shape"), ", "), shape));
  OnnxWindow window = onnx_window(x, taps);
  const Tensor weight = window.is_signal ? x[1].unsqueeze(2) : x[1];
  return {std::move(window), weight, x.optional(2)};
}

OnnxResults convolved(const OnnxArgs& x) {
  const auto [w, weight, bias] = filter_of(x);
  const bool own = w.is_symmetric();
  const Conv2dParams params{.stride = w.stride,
                            .padding = own ? w.before : Size2(0),
                            .dilation = w.dilation,
                            .groups = x.integer("group", 1)};
  return {w.restored(conv2d(own ? w.input : padded_image(w.input, w.before, w.after), weight, bias, params))};
}

// Rounds down, also below 0.
std::int64_t half(std::int64_t total) { return total >> 1; }

OnnxResults convolved_transposed(const OnnxArgs& x) {
  const auto [w, weight, bias] = filter_of(x);
  const Size2 extra = onnx_pair(x, "output_padding", w.is_signal, 0, 0);
  const Size2 in(w.input.size(2), w.input.size(3)), extent = w.extent();
  ConvTranspose2dParams params{.stride = w.stride, .dilation = w.dilation, .groups = x.integer("group", 1)};
  Size2 before = w.before, after = w.after;
  const std::string automatic = x.text("auto_pad", "NOTSET");
  const bool given = x.has_attribute("output_shape"), upper = automatic == "SAME_UPPER";
  if (given || upper || automatic == "SAME_LOWER") {
    const Size2 out =
        given ? onnx_pair(x, "output_shape", w.is_signal, 1, 1) : Size2(in.h * w.stride.h, in.w * w.stride.w);
    const auto cut = [&, stride = w.stride](std::int64_t Size2::*of) {
      return stride.*of * (in.*of - 1) + extra.*of + extent.*of - out.*of;
    };
    const Size2 total(cut(&Size2::h), cut(&Size2::w));
    before = {half(total.h), half(total.w)};
    after = {total.h - before.h, total.w - before.w};
    if (!upper) std::swap(before, after);
  }
  if (before == after && std::min(before.h, before.w) >= 0) {
    params.padding = before;
    params.output_padding = extra;
    return {w.restored(conv_transpose2d(w.input, weight, bias, params))};
  }
  // The pads cut the whole result or extend it. The elements that they add have the bias too.
  Tensor y = conv_transpose2d(w.input, weight, {}, params);
  y = padded_image(y, {-before.h, -before.w}, {extra.h - after.h, extra.w - after.w});
  return {w.restored(bias.defined() ? y + bias.reshape({y.size(1), 1, 1}) : y)};
}

// ---- Pooling.

// The padding behind an axis that makes room for its last window. In ceil mode the last window begins before the end
// of the input, as in PyTorch.
std::int64_t behind(const OnnxArgs& x, std::int64_t in, std::int64_t extent, std::int64_t stride, std::int64_t before,
                    std::int64_t after) {
  const std::int64_t room = in + before + after - extent;
  if (x.integer("ceil_mode", 0) == 0 || room < 0) return after;
  std::int64_t windows = (room + stride - 1) / stride + 1;
  if ((windows - 1) * stride >= in + before) --windows;
  return (windows - 1) * stride + extent - in - before;
}

Size2 behind(const OnnxArgs& x, const OnnxWindow& w) {
  const Size2 extent = w.extent();
  return {behind(x, w.input.size(2), extent.h, w.stride.h, w.before.h, w.after.h),
          behind(x, w.input.size(3), extent.w, w.stride.w, w.before.w, w.after.w)};
}

// Returns true if the library's pooling has this padding.
bool takes_padding(const OnnxWindow& w) {
  const Size2 extent = w.extent();
  return w.is_symmetric() && 2 * w.before.h <= extent.h && 2 * w.before.w <= extent.w;
}

// Converts indices into the planes of a padded image to indices into the whole input.
Tensor places_in_input(const OnnxArgs& x, const OnnxWindow& w, const Tensor& places, const Size2& padding,
                       std::int64_t padded_width) {
  const std::int64_t height = w.input.size(2), width = w.input.size(3), planes = w.input.size(0) * w.input.size(1);
  const Tensor row = floor_divide(places, padded_width);
  const Tensor column = places - row * padded_width;
  const Tensor plane = Tensor::arange(planes, places.options()).reshape({w.input.size(0), w.input.size(1), 1, 1});
  const Tensor y = row - padding.h, at = column - padding.w;
  const bool by_columns = x.integer("storage_order", 0) != 0;
  return plane * (height * width) + (by_columns ? at * height + y : y * width + at);
}

OnnxResults max_pooled(const OnnxArgs& x) {
  OnnxWindow w = onnx_window(x, x.integers("kernel_shape"));
  const DType dtype = w.input.dtype();
  if (dtype == kUInt8) w.input = w.input.to(kFloat32);  // which holds every uint8
  MaxPool2dParams params{.stride = w.stride, .dilation = w.dilation};
  Tensor image = w.input;
  const bool own = takes_padding(w);
  if (own) {
    params.padding = w.before;
    params.ceil_mode = x.integer("ceil_mode", 0) != 0;
  } else {
    image = padded_image(image, w.before, behind(x, w), -std::numeric_limits<double>::infinity());
  }
  if (x.node.outputs.size() < 2) return {w.restored(max_pool2d(image, w.kernel, params).to(dtype))};
  const auto [y, places] = max_pool2d_with_indices(image, w.kernel, params);
  const Tensor whole = places_in_input(x, w, places, own ? Size2(0) : w.before, image.size(3));
  return {w.restored(y.to(dtype)), w.restored(whole)};
}

// The means of windows. `counts_padding`: the divisor counts the elements of the padding too.
Tensor averaged(const OnnxArgs& x, const OnnxWindow& w, bool counts_padding) {
  AvgPool2dParams params{.stride = w.stride};
  if (takes_padding(w)) {
    params.padding = w.before;
    params.ceil_mode = x.integer("ceil_mode", 0) != 0;
    params.count_include_pad = counts_padding;
    return avg_pool2d(w.input, w.kernel, params);
  }
  // Zeros behind the pads complete the last window. The share of elements that count corrects the mean.
  const Size2 end = behind(x, w), beyond(end.h - w.after.h, end.w - w.after.w);
  Tensor counted = Tensor::ones({1, 1, w.input.size(2), w.input.size(3)}, w.input.options());
  if (counts_padding) {
    counted = padded_image(padded_image(counted, w.before, w.after, 1.0), 0, beyond);
  } else {
    counted = padded_image(counted, w.before, end);
  }
  return avg_pool2d(padded_image(w.input, w.before, end), w.kernel, params) / avg_pool2d(counted, w.kernel, params);
}

// Windows (k, 1, 1) of (N, C, D, H, W), which PyTorch exports for sums over channels, are windows (k, 1) of
// (N, C, D, H W). Returns the node of these, unless the windows have other extents.
std::optional<OnnxFile::Node> of_first_axis(const OnnxArgs& x) {
  OnnxFile::Node node = x.node;
  for (const auto& [name, trivial] : {std::pair("kernel_shape", 1), std::pair("strides", 1), std::pair("pads", 0)}) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) continue;
    auto* const values = std::get_if<std::vector<std::int64_t>>(&found->second);
    const std::size_t groups = std::string_view(name) == "pads" ? 2 : 1;
    if (values == nullptr || values->size() != 3 * groups) return {};
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < values->size(); ++i) {
      if (i % 3 != 0 && (*values)[i] != trivial) return {};
      if (i % 3 != 2) kept.push_back((*values)[i]);
    }
    *values = std::move(kept);
  }
  return node;
}

OnnxResults average_pooled(const OnnxArgs& x) {
  if (const auto node = x[0].dim() == 5 ? of_first_axis(x) : std::nullopt) {
    const Tensor planes = x[0].flatten(3);
    const Tensor y = average_pooled({*node, std::span(&planes, 1), x.operator_set, x.training})[0];
    return {y.reshape({y.size(0), y.size(1), y.size(2), x[0].size(3), x[0].size(4)})};
  }
  const OnnxWindow w = onnx_window(x, x.integers("kernel_shape"));
  return {w.restored(averaged(x, w, x.integer("count_include_pad", 0) != 0))};
}

OnnxResults norm_pooled(const OnnxArgs& x) {
  OnnxWindow w = onnx_window(x, x.integers("kernel_shape"));
  const auto p = static_cast<double>(x.integer("p", 2));
  if (p < 1.0) x.refuse(fmt::format("its p must be positive; got {}", p));
  w.input = abs(w.input).pow(p);
  const auto count = static_cast<double>(w.kernel.h * w.kernel.w);
  return {w.restored((averaged(x, w, true) * count).pow(1.0 / p))};
}

OnnxResults unpooled(const OnnxArgs& x) {
  const OnnxWindow w = onnx_window(x, x.integers("kernel_shape"));
  if (x[1].shape() != x[0].shape() || x[1].dtype() != kInt64)
    x.refuse(fmt::format("its indices must be int64, of the input's shape {}; got {} {}", x[0].shape(), x[1].dtype(),
                         x[1].shape()));
  const auto extent = [&](std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pads) {
    return (in - 1) * stride + kernel - pads;
  };
  Shape shape = w.input.shape();
  shape[2] = extent(shape[2], w.kernel.h, w.stride.h, w.before.h + w.after.h);
  shape[3] = extent(shape[3], w.kernel.w, w.stride.w, w.before.w + w.after.w);
  const Tensor zeros = Tensor::zeros({shape.numel()}, x[0].options());
  Tensor y = w.restored(scatter(zeros, 0, x[1].reshape({-1}), x[0].reshape({-1})).reshape(shape));
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
