#include <adjoint/nn/onnx/load/operators/window.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint::nn::detail {
namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 30) - 1;  // sums of products of two fit in 64 bits

Size2 pair_of(const std::vector<std::int64_t>& values, std::int64_t otherwise) {
  return values.size() == 1 ? Size2(otherwise, values[0]) : Size2(values[0], values[1]);
}

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

Size2 onnx_pair(const OnnxArgs& x, const char* name, bool is_signal, std::int64_t otherwise, std::int64_t least) {
  const std::size_t axes = is_signal ? 1 : 2;
  const std::vector<std::int64_t> values = x.integers(name, std::vector<std::int64_t>(axes, otherwise));
  check_values(x, name, values, axes, least);
  return pair_of(values, otherwise);
}

OnnxWindow onnx_window(const OnnxArgs& x, const std::vector<std::int64_t>& kernel) {
  const Shape& shape = x[0].shape();
  const bool is_signal = shape.size() == 3;
  if (!is_signal && shape.size() != 4)
    x.refuse(
        fmt::format("its input must be (N, C, L) or (N, C, H, W), because this library has no layers of more "
                    "axes; got {}",
                    shape));
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent > kMost; }))
    x.refuse(fmt::format("its input's extents must be below 2^30; got {}", shape));
  const std::size_t axes = is_signal ? 1 : 2;
  check_values(x, "kernel_shape", kernel, axes, 1);
  OnnxWindow window{.input = is_signal ? x[0].unsqueeze(2) : x[0],
                    .is_signal = is_signal,
                    .kernel = pair_of(kernel, 1),
                    .stride = onnx_pair(x, "strides", is_signal, 1, 1),
                    .dilation = onnx_pair(x, "dilations", is_signal, 1, 1),
                    .before = 0,
                    .after = 0};
  const std::string automatic = x.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const Size2 extent = window.extent();
    const Size2 total(same_padding(window.input.size(2), extent.h, window.stride.h),
                      same_padding(window.input.size(3), extent.w, window.stride.w));
    window.before = {total.h / 2, total.w / 2};
    window.after = {total.h - total.h / 2, total.w - total.w / 2};
    if (automatic == "SAME_LOWER") std::swap(window.before, window.after);
  } else if (automatic == "NOTSET") {
    const std::vector<std::int64_t> pads = x.integers("pads", std::vector<std::int64_t>(2 * axes, 0));
    check_values(x, "pads", pads, 2 * axes, 0);
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
    window.before = pair_of({pads.begin(), middle}, 0);
    window.after = pair_of({middle, pads.end()}, 0);
  } else if (automatic != "VALID") {
    x.refuse(fmt::format("its auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID; got {}", automatic));
  }
  return window;
}

}  // namespace adjoint::nn::detail
