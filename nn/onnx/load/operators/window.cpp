#include <adjoint/nn/onnx/load/operators/window.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint::nn::detail {
namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 30) - 1;  // sums of products of two fit in 64 bits

void check_values(const OnnxArgs& x, const char* name, const std::vector<std::int64_t>& values, std::size_t count,
                  std::int64_t least) {
  const bool fits = std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v >= least && v <= kMost; });
  if (values.size() != count || !fits)
    x.refuse(fmt::format("its {} must be {} numbers from {} to 2^30 - 1; got {}", name, count, least,
                         fmt::join(values, ", ")));
}

// The padding for which windows of `extent` at every stride-th place cover `in` elements.
std::int64_t same_padding(std::int64_t in, std::int64_t extent, std::int64_t stride) {
  const std::int64_t windows = (in + stride - 1) / stride;
  return std::max<std::int64_t>((windows - 1) * stride + extent - in, 0);
}

}  // namespace

std::vector<std::int64_t> onnx_values(const OnnxArgs& x, const char* name, std::size_t axes, std::int64_t otherwise,
                                      std::int64_t least) {
  const std::vector<std::int64_t> values = x.integers(name, std::vector<std::int64_t>(axes, otherwise));
  check_values(x, name, values, axes, least);
  return values;
}

OnnxAxes onnx_axes(const OnnxArgs& x, const std::vector<std::int64_t>& kernel) {
  const Shape& shape = x[0].shape();
  if (shape.size() < 3 || shape.size() > 5)
    x.refuse(fmt::format("its input must be (N, C, L), (N, C, H, W) or (N, C, D, H, W); got {}", shape));
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent > kMost; }))
    x.refuse(fmt::format("its input's extents must be below 2^30; got {}", shape));
  const std::size_t axes = shape.size() - 2;
  check_values(x, "kernel_shape", kernel, axes, 1);
  OnnxAxes windows{.kernel = kernel,
                   .stride = onnx_values(x, "strides", axes, 1, 1),
                   .dilation = onnx_values(x, "dilations", axes, 1, 1),
                   .before = std::vector<std::int64_t>(axes, 0),
                   .after = std::vector<std::int64_t>(axes, 0)};
  const std::string automatic = x.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t total = same_padding(shape[i + 2], windows.extent(i), windows.stride[i]);
      windows.before[i] = total / 2;
      windows.after[i] = total - total / 2;
    }
    if (automatic == "SAME_LOWER") std::swap(windows.before, windows.after);
  } else if (automatic == "NOTSET") {
    const std::vector<std::int64_t> pads = onnx_values(x, "pads", 2 * axes, 0, 0);
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
    windows.before.assign(pads.begin(), middle);
    windows.after.assign(middle, pads.end());
  } else if (automatic != "VALID") {
    x.refuse(fmt::format("its auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID; got {}", automatic));
  }
  return windows;
}

}  // namespace adjoint::nn::detail
