// ONNX's operators that sample images: Resize, its predecessor Upsample, and GridSample.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/grid/grid.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/resample/resample.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace adjoint::nn::detail {
namespace {

// An axis that is resampled: input pixels `ratio` apart.
struct ResizedAxis {
  std::int64_t axis, in, out;
  double ratio;
  double roi_start, roi_end;
};

struct ResizeMode {
  std::string filter;       // nearest, linear or cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string rounding;     // nearest_mode
  double cubic_a;
  bool excludes_outside;
};

std::string one_of(const OnnxArgs& x, const char* name, const std::vector<std::string>& values) {
  const std::string value = x.text(name, values[0]);
  if (std::find(values.begin(), values.end(), value) == values.end())
    x.refuse(fmt::format("its {} must be one of {}; got {}", name, fmt::join(values, ", "), value));
  return value;
}

// A scale is a float32. Its inverse is rounded to float32 too, so that it is a whole number if the exact inverse is.
// `share` is the part of the axis that is resized.
ResizedAxis by_scale(const OnnxArgs& x, std::int64_t axis, std::int64_t in, double scale, double share) {
  const float extent = std::floor(static_cast<float>(in) * static_cast<float>(share) * static_cast<float>(scale));
  if (!(scale > 0.0 && extent >= 0.0F && extent < 0x1p40F))
    x.refuse(fmt::format("its scales must be positive; got {}", scale));
  return {axis, in, static_cast<std::int64_t>(extent), static_cast<double>(static_cast<float>(1.0 / scale)), 0.0, 1.0};
}
ResizedAxis by_size(std::int64_t axis, std::int64_t in, std::int64_t out) {
  return {axis, in, out, static_cast<double>(in) / static_cast<double>(out), 0.0, 1.0};
}

// The axes that change. `scales` and `sizes` are operands, of which one has an element for each axis.
std::vector<ResizedAxis> resized_axes(const OnnxArgs& x, std::size_t scales, std::size_t sizes, bool crops) {
  const bool scaled = x.has(scales) && x[scales].numel() > 0, sized = x.has(sizes) && x[sizes].numel() > 0;
  if (scaled == sized) x.refuse("it must have either scales or sizes");
  const std::vector<double> numbers = x.host_numbers(scaled ? scales : sizes);
  const std::vector<double> roi = crops ? x.host_numbers(1) : std::vector<double>();
  const std::size_t rank = x[0].shape().size();
  if (numbers.size() != rank || (crops && roi.size() != 2 * rank))
    x.refuse(fmt::format("its scales, sizes and roi must fit the input's {} axes; got {} and {} numbers", rank,
                         numbers.size(), roi.size()));
  std::vector<ResizedAxis> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const std::int64_t in = x[0].shape()[i];
    if (sized && !(numbers[i] >= 1.0 && numbers[i] < 0x1p40))
      x.refuse(fmt::format("its sizes must be positive; got {}", fmt::join(numbers, ", ")));
    const double start = crops ? roi[i] : 0.0, end = crops ? roi[rank + i] : 1.0;
    ResizedAxis resized = sized ? by_size(axis, in, static_cast<std::int64_t>(numbers[i]))
                                : by_scale(x, axis, in, numbers[i], end - start);
    resized.roi_start = start, resized.roi_end = end;
    const bool whole = start == 0.0 && end == 1.0;
    if (resized.in == resized.out && resized.ratio == 1.0 && whole) continue;
    if (resized.in < 1 || resized.out < 1)
      x.refuse(fmt::format("its input and result must have elements; got {} to {}", resized.in, resized.out));
    axes.push_back(resized);
  }
  return axes;
}

// The place in the input of each element of an axis, float64.
Tensor places_of(const ResizedAxis& axis, const std::string& coordinates, Device device) {
  const Tensor o = Tensor::arange(axis.out, {.dtype = kFloat64, .device = device});
  const auto last_in = static_cast<double>(axis.in - 1), last_out = static_cast<double>(axis.out - 1);
  if (coordinates == "asymmetric") return o * axis.ratio;
  if (coordinates == "align_corners") return axis.out == 1 ? o : o * (last_in / last_out);
  if (coordinates == "tf_half_pixel_for_nn") return (o + 0.5) * axis.ratio;
  if (coordinates == "pytorch_half_pixel" && axis.out == 1) return o;
  if (coordinates != "tf_crop_and_resize") return (o + 0.5) * axis.ratio - 0.5;
  if (axis.out == 1) return o + 0.5 * (axis.roi_start + axis.roi_end) * last_in;
  return o * ((axis.roi_end - axis.roi_start) * last_in / last_out) + axis.roi_start * last_in;
}

// A number of places for each element of an axis: the first, and the weights of all, which are polynomials of the
// distance behind it.
struct ResizeTaps {
  Tensor first;
  std::vector<Tensor> weights;
};

ResizeTaps taps_of_places(const Tensor& places, const ResizeMode& mode) {
  if (mode.filter == "nearest") {
    // Places that are whole or half but for rounding become so.
    const Tensor at = round(places * 0x1p16) * 0x1p-16, one = ones_like(at);
    if (mode.rounding == "floor") return {floor(at), {one}};
    if (mode.rounding == "ceil") return {ceil(at), {one}};
    if (mode.rounding == "round_prefer_ceil") return {floor(at + 0.5), {one}};
    return {ceil(at - 0.5), {one}};
  }
  const Tensor first = floor(places), t = places - first;
  if (mode.filter == "linear") return {first, {1.0 - t, t}};
  // Keys, "Cubic convolution interpolation for digital image processing", 1981.
  const double a = mode.cubic_a;
  const auto near = [&](const Tensor& s) { return ((a + 2.0) * s - (a + 3.0)) * s * s + 1.0; };
  const auto far = [&](const Tensor& s) { return ((s * a - 5.0 * a) * s + 8.0 * a) * s - 4.0 * a; };
  return {first - 1.0, {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)}};
}

// A tensor of an axis's extent, to be broadcast with others.
Tensor broadcast_along(const Tensor& x, std::int64_t axis, std::int64_t rank) {
  Shape shape = Dims::filled(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = x.numel();
  return x.reshape(shape);
}

Tensor resampled_axis(const Tensor& x, const ResizedAxis& axis, const ResizeMode& mode) {
  auto [first, weights] = taps_of_places(places_of(axis, mode.coordinates, x.device()), mode);
  const auto last = static_cast<double>(axis.in - 1);
  if (mode.excludes_outside && mode.filter != "nearest") {
    Tensor sum = zeros_like(first);
    for (std::size_t tap = 0; tap < weights.size(); ++tap) {
      const Tensor at = first + static_cast<double>(tap);
      weights[tap] = where((at < 0.0) | (at > last), 0.0, weights[tap]);
      sum = sum + weights[tap];
    }
    for (Tensor& weight : weights) weight = weight / sum;
  }
  Tensor y;
  for (std::size_t tap = 0; tap < weights.size(); ++tap) {
    const Tensor index = clamp(first + static_cast<double>(tap), 0.0, last).to(kInt64);
    Tensor part = x.index_select(axis.axis, index);
    if (mode.filter != "nearest") part = part * broadcast_along(weights[tap].to(x.dtype()), axis.axis, x.dim());
    y = tap == 0 ? part : y + part;
  }
  return y;
}

// The result by the library's own interpolation, which is one pass over an image; empty if it lacks the mode.
std::optional<Tensor> interpolated(const Tensor& x, const std::vector<ResizedAxis>& axes, const ResizeMode& mode) {
  if (x.dim() != 4 || !is_floating_point(x.dtype()) || axes.empty()) return {};
  Size2 size(x.size(2), x.size(3));
  for (const ResizedAxis& axis : axes) {
    const double ratio = static_cast<double>(axis.in) / static_cast<double>(axis.out);
    if (axis.axis < 2 || axis.out == 1 || std::abs(axis.ratio - ratio) > 1e-6 * ratio) return {};
    (axis.axis == 2 ? size.h : size.w) = axis.out;
  }
  InterpolateParams params{.size = size};
  if (mode.filter == "nearest") {
    if (mode.coordinates != "asymmetric" || mode.rounding != "floor") return {};
    return interpolate(x, params);
  }
  params.mode = mode.filter == "linear" ? Interpolation::kBilinear : Interpolation::kBicubic;
  params.align_corners = mode.coordinates == "align_corners";
  const bool has_mode = mode.filter == "linear" || (mode.cubic_a == -0.75 && !mode.excludes_outside);
  const bool has_places =
      params.align_corners || mode.coordinates == "half_pixel" || mode.coordinates == "pytorch_half_pixel";
  if (!has_mode || !has_places) return {};
  return interpolate(x, params);
}

Tensor resampled(const Tensor& x, const std::vector<ResizedAxis>& axes, const ResizeMode& mode) {
  if (const std::optional<Tensor> whole = interpolated(x, axes, mode)) return *whole;
  Tensor y = x;
  for (const ResizedAxis& axis : axes) y = resampled_axis(y, axis, mode);
  return y;
}

OnnxResults resized(const OnnxArgs& x) {
  const ResizeMode mode{.filter = one_of(x, "mode", {"nearest", "linear", "cubic"}),
                        .coordinates = one_of(x, "coordinate_transformation_mode",
                                              {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                               "tf_crop_and_resize", "tf_half_pixel_for_nn"}),
                        .rounding =
                            one_of(x, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
                        .cubic_a = x.number("cubic_coeff_a", -0.75),
                        .excludes_outside = x.integer("exclude_outside", 0) != 0};
  const bool crops = mode.coordinates == "tf_crop_and_resize";
  const std::vector<ResizedAxis> axes = resized_axes(x, 2, 3, crops);
  Tensor y = resampled(x[0], axes, mode);
  if (!crops) return {y};
  for (const ResizedAxis& axis : axes) {
    const Tensor places = places_of(axis, mode.coordinates, y.device());
    const Tensor outside = (places < 0.0) | (places > static_cast<double>(axis.in - 1));
    y = masked_fill(y, broadcast_along(outside, axis.axis, y.dim()), x.number("extrapolation_value", 0.0));
  }
  return {y};
}

OnnxResults upsampled(const OnnxArgs& x) {
  const ResizeMode mode{.filter = one_of(x, "mode", {"nearest", "linear"}),
                        .coordinates = "asymmetric",
                        .rounding = "floor",
                        .cubic_a = 0.0,
                        .excludes_outside = false};
  return {resampled(x[0], resized_axes(x, 1, 2, false), mode)};
}

OnnxResults grid_sampled(const OnnxArgs& x) {
  return {grid_sample(x[0], x[1],
                      {.mode = one_of(x, "mode", {"bilinear", "nearest", "bicubic"}),
                       .padding_mode = one_of(x, "padding_mode", {"zeros", "border", "reflection"}),
                       .align_corners = x.integer("align_corners", 0) != 0})};
}

constexpr OnnxOperator kResizeOperators[] = {
    {.type = "GridSample", .run = grid_sampled, .attributes = "align_corners mode padding_mode"},
    {.type = "Resize",
     .run = resized,
     .attributes = "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode nearest_mode",
     .settings = 2 | 4 | 8},
    {.type = "Upsample", .run = upsampled, .attributes = "mode", .settings = 2},
};

}  // namespace

std::span<const OnnxOperator> onnx_resize_operators() { return kResizeOperators; }

}  // namespace adjoint::nn::detail
