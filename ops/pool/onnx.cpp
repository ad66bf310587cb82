#include <adjoint/ops/pool/onnx.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

// f of each pooled axis.
template <class F>
std::vector<std::int64_t> of_axes(const PoolAttr& attr, const F& f) {
  if (attr.axes == 1) return {f(attr.w)};
  if (attr.axes == 2) return {f(attr.h), f(attr.w)};
  return {f(attr.d), f(attr.h), f(attr.w)};
}

constexpr std::array kAxes{&PoolAttr::d, &PoolAttr::h, &PoolAttr::w};

OnnxValue as_batch(OnnxCall& call, const PoolAttr& attr) {
  const bool is_batch = call.in[0].shape().size() == attr.axes + 2;
  return is_batch ? call.operand(0) : call.add("Unsqueeze", {call.operand(0), call.integers({0})});
}
OnnxValue from_batch(OnnxCall& call, const PoolAttr& attr, OnnxValue pooled) {
  const bool is_batch = call.in[0].shape().size() == attr.axes + 2;
  return is_batch ? pooled : call.add("Squeeze", {pooled, call.integers({0})});
}

// x with `value` around its volumes; pads begin, then end.
OnnxValue padded(OnnxCall& call, OnnxValue x, std::vector<std::int64_t> pads, double value) {
  for (const std::size_t at : {pads.size() / 2, std::size_t{0}})
    pads.insert(pads.begin() + static_cast<std::ptrdiff_t>(at), {0, 0});
  return call.add("Pad", {x, call.integers(pads), call.number(value, call.in[0].dtype())});
}

std::int64_t extent_of(const PoolAxis& axis) { return std::int64_t{axis.dilation} * (axis.kernel - 1) + 1; }

// Returns true if ONNX's ceil_mode has the same windows. Versions differ in those that would begin behind the input.
bool rounds_up(const PoolAttr& attr) {
  const auto ends_alike = [](const PoolAxis& axis) {
    const std::int64_t room = axis.in + 2 * std::int64_t{axis.padding} - extent_of(axis);
    return axis.out == (room + axis.stride - 1) / axis.stride + 1;
  };
  return attr.ceil_mode && ends_alike(attr.d) && ends_alike(attr.h) && ends_alike(attr.w);
}

// The padding that windows need, except in ceil_mode.
std::vector<std::int64_t> pads_of(const PoolAttr& attr, bool ceil_mode) {
  std::vector<std::int64_t> pads = of_axes(attr, [](const PoolAxis& axis) { return std::int64_t{axis.padding}; });
  const std::vector<std::int64_t> ends = of_axes(attr, [&](const PoolAxis& axis) {
    const std::int64_t reached = std::int64_t{axis.out - 1} * axis.stride + extent_of(axis);
    return ceil_mode ? axis.padding : std::max<std::int64_t>(axis.padding, reached - axis.in - axis.padding);
  });
  pads.insert(pads.end(), ends.begin(), ends.end());
  return pads;
}

OnnxAttributes window_attributes(const PoolAttr& attr, std::vector<std::int64_t> pads, bool ceil_mode) {
  OnnxAttributes attributes{{"kernel_shape", of_axes(attr, [](const PoolAxis& axis) { return axis.kernel; })},
                            {"strides", of_axes(attr, [](const PoolAxis& axis) { return axis.stride; })},
                            {"pads", std::move(pads)}};
  if (ceil_mode) attributes.emplace_back("ceil_mode", true);
  return attributes;
}

// The windows of an adaptive axis, all of the longest one's size.
struct EqualWindows {
  PoolAxis axis;
  std::vector<std::int64_t> inputs;  // that the windows hold, one window after the other; empty: all, in order
};

// Behind its end, a window holds its last input again, or input `beyond`.
EqualWindows equal_windows(const PoolAxis& adaptive, std::optional<std::int64_t> beyond) {
  EqualWindows windows;
  const auto length = [](const pool::Run& run) { return run.end - run.start; };
  std::int32_t longest = 0;
  for (std::int32_t o = 0; o < adaptive.out; ++o) longest = std::max(longest, length(pool::window(adaptive, o)));
  const std::int32_t step = adaptive.out > 1 ? pool::window(adaptive, 1).start : longest;
  bool is_regular = step > 0;
  for (std::int32_t o = 0; o < adaptive.out; ++o) {
    const pool::Run run = pool::window(adaptive, o);
    is_regular = is_regular && run.start == o * step && length(run) == longest;
    for (std::int32_t k = 0; k < longest; ++k)
      windows.inputs.push_back(k < length(run) ? run.start + k : beyond.value_or(run.end - 1));
  }
  windows.axis = {adaptive.out * longest, adaptive.out, longest, longest};
  if (is_regular) return {{adaptive.in, adaptive.out, longest, step}, {}};
  return windows;
}

// Gathers the inputs of irregular windows along each pooled axis of x. axes: the number of pooled axes.
OnnxValue gathered(OnnxCall& call, OnnxValue x, const std::array<EqualWindows, 3>& windows, std::size_t axes) {
  for (std::size_t i = windows.size() - axes; i < windows.size(); ++i) {
    const OnnxAttributes along{{"axis", static_cast<std::int64_t>(i) - std::ssize(windows)}};
    if (!windows[i].inputs.empty()) x = call.add("Gather", {x, call.integers(windows[i].inputs)}, along);
  }
  return x;
}

// The number of a window's places by the divisor of its sum, for each window.
std::vector<double> places_by_divisor(const PoolAttr& attr, const PoolAttr& of_places) {
  const double places = static_cast<double>(of_places.d.kernel) * of_places.h.kernel * of_places.w.kernel;
  std::vector<double> factors;
  for (std::int32_t z = 0; z < attr.d.out; ++z) {
    const std::int64_t layers = pool::counted(attr.d, z, attr.counts_padding);
    for (std::int32_t y = 0; y < attr.h.out; ++y) {
      const std::int64_t lines = layers * pool::counted(attr.h, y, attr.counts_padding);
      for (std::int32_t x = 0; x < attr.w.out; ++x) {
        const std::int64_t columns = pool::counted(attr.w, x, attr.counts_padding);
        factors.push_back(places / pool::divisor<double>(attr, lines, columns));
      }
    }
  }
  return factors;
}

std::int64_t per_volume(const Tensor& x, std::int64_t volumes) { return volumes == 0 ? 1 : x.numel() / volumes; }

}  // namespace

OnnxValue max_pool_onnx(OnnxCall& call, const PoolAttr& attr) {
  OnnxValue x = as_batch(call, attr);
  PoolAttr own = attr;
  std::array<std::vector<std::int64_t>, 3> inputs;  // of each axis; empty: all
  if (attr.w.kernel == 0) {
    if (attr.out_volume() == 1 && !attr.with_indices) return from_batch(call, attr, call.add("GlobalMaxPool", {x}));
    std::array windows{equal_windows(attr.d, {}), equal_windows(attr.h, {}), equal_windows(attr.w, {})};
    x = gathered(call, x, windows, attr.axes);
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      own.*kAxes[i] = windows[i].axis;
      inputs[i] = std::move(windows[i].inputs);
    }
  }
  const bool ceil_mode = rounds_up(own);
  std::vector<std::int64_t> pads = pads_of(own, ceil_mode);
  const std::vector<std::int64_t> kernel = of_axes(own, [](const PoolAxis& axis) { return axis.kernel; });
  bool fills_window = false;
  for (std::size_t i = 0; i < pads.size(); ++i) fills_window = fills_window || pads[i] >= kernel[i % attr.axes];
  if (fills_window) {
    // ONNX Runtime refuses such padding, even of windows with dilation.
    const auto shifted = [](PoolAxis& axis, std::int64_t end) {
      std::vector<std::int64_t> places(static_cast<std::size_t>(axis.in + axis.padding + end));
      std::iota(places.begin(), places.end(), -std::int64_t{axis.padding});
      axis.in = static_cast<std::int32_t>(places.size());
      return places;
    };
    x = padded(call, x, pads, -std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < attr.axes; ++i) {
      const std::size_t axis = kAxes.size() - attr.axes + i;
      inputs[axis] = shifted(own.*kAxes[axis], pads[attr.axes + i]);
    }
    pads.assign(pads.size(), 0);
  }
  OnnxAttributes attributes = window_attributes(own, pads, ceil_mode);
  if (own.d.dilation != 1 || own.h.dilation != 1 || own.w.dilation != 1)
    attributes.emplace_back("dilations", of_axes(own, [](const PoolAxis& axis) { return axis.dilation; }));
  const auto results = call.add_node("MaxPool", std::array{x}, attributes, attr.with_indices ? 2 : 1);
  if (attr.with_indices) {
    // ONNX counts through all volumes.
    const auto axes = static_cast<std::int64_t>(attr.axes);
    const OnnxValue volume = call.add("ReduceProd", {call.add("Shape", {x}, {{"start", -axes}})});
    OnnxValue place = call.add("Mod", {results[1], volume});
    if (std::any_of(inputs.begin(), inputs.end(), [](const auto& of_axis) { return !of_axis.empty(); })) {
      std::vector<std::int64_t> places;
      for (std::int64_t i = 0; i < own.in_volume(); ++i) {
        const std::array at{i / own.w.in / own.h.in, i / own.w.in % own.h.in, i % own.w.in};
        std::int64_t source = 0;
        for (std::size_t axis = 0; axis < at.size(); ++axis) {
          const std::vector<std::int64_t>& of_axis = inputs[axis];
          source = source * (attr.*kAxes[axis]).in +
                   (of_axis.empty() ? at[axis] : of_axis[static_cast<std::size_t>(at[axis])]);
        }
        places.push_back(source);
      }
      place = call.add("Gather", {call.integers(places), place});
    }
    call.set_result(1, from_batch(call, attr, place));
  }
  return from_batch(call, attr, results[0]);
}

OnnxValue avg_pool_onnx(OnnxCall& call, const PoolAttr& attr) {
  OnnxValue x = as_batch(call, attr);
  PoolAttr own = attr;
  bool is_sum = attr.divisor != 0;
  if (attr.w.kernel == 0) {
    // Windows shorter than others hold a zero behind the input, too.
    std::array<EqualWindows, 3> windows;
    std::vector<std::int64_t> pads(2 * attr.axes, 0);
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      const PoolAxis& axis = attr.*kAxes[i];
      windows[i] = equal_windows(axis, axis.in);
      own.*kAxes[i] = windows[i].axis;
      const std::vector<std::int64_t>& inputs = windows[i].inputs;
      if (std::find(inputs.begin(), inputs.end(), axis.in) == inputs.end()) continue;
      pads[pads.size() - kAxes.size() + i] = 1;
      is_sum = true;
    }
    if (is_sum) x = padded(call, x, pads, 0.0);
    x = gathered(call, x, windows, attr.axes);
  }
  // In ceil_mode padding counts, but nothing behind it.
  const bool has_padding = attr.d.padding > 0 || attr.h.padding > 0 || attr.w.padding > 0;
  is_sum = is_sum || (attr.ceil_mode && attr.counts_padding && has_padding);
  const bool ceil_mode = rounds_up(own) && !is_sum;
  OnnxAttributes attributes = window_attributes(own, pads_of(own, ceil_mode), ceil_mode);
  if (is_sum || (attr.counts_padding && has_padding)) attributes.emplace_back("count_include_pad", true);
  const OnnxValue means = call.add("AveragePool", {x}, attributes);
  if (!is_sum) return from_batch(call, attr, means);
  const std::vector<double> factors = places_by_divisor(attr, own);
  const bool is_one = attr.divisor != 0 && !attr.ceil_mode;
  const Shape shape = is_one ? Shape{} : Shape(of_axes(attr, [](const PoolAxis& axis) { return axis.out; }));
  const Tensor factor =
      Tensor::from_vector(is_one ? std::vector{factors[0]} : factors, shape, {.dtype = call.in[0].dtype()});
  return from_batch(call, attr, call.add("Mul", {means, call.constant(factor)}));
}

// Unpooling, in volumes as rows. Elements without a place are behind a row's end, which -1 also addresses.

OnnxValue max_unpool_places_onnx(OnnxCall& call, const UnpoolAttr& attr) {
  const std::int64_t volumes = attr.shape.numel() / attr.volume, elements = per_volume(call.in[0], volumes);
  const OnnxAttributes along_rows{{"axis", std::int64_t{1}}};
  const OnnxValue places = call.reshape(call.operand(0), std::array{volumes, elements});
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(elements));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  const OnnxValue number = call.add("Expand", {call.integers(numbers), call.integers({volumes, elements})});
  const Tensor nobody = Tensor::full({1}, -1, {.dtype = kInt64});
  const OnnxValue empty = call.add("ConstantOfShape", {call.integers({volumes, attr.volume + 1})}, {{"value", nobody}});
  const OnnxValue owners = call.add("ScatterElements", {empty, places, number}, along_rows);
  const OnnxValue is_owner = call.add("Equal", {call.add("GatherElements", {owners, places}, along_rows), number});
  const OnnxValue taken = call.add("Where", {is_owner, places, call.integers({-1})});
  call.set_result(1, call.reshape(taken, call.in[0].shape()));
  const OnnxValue inside = call.add("Slice", {owners, call.integers({0}), call.integers({-1}), call.integers({1})});
  return call.reshape(inside, attr.shape);
}

OnnxValue max_unpool_take_onnx(OnnxCall& call, const std::int64_t& volumes) {
  const OnnxValue x = call.reshape(call.operand(0), std::array{volumes, per_volume(call.in[0], volumes)});
  const OnnxValue places = call.reshape(call.operand(1), std::array{volumes, per_volume(call.in[1], volumes)});
  const OnnxValue with_zero = call.add("Pad", {x, call.integers({0, 0, 0, 1})});
  return call.reshape(call.add("GatherElements", {with_zero, places}, {{"axis", std::int64_t{1}}}),
                      call.out[0].shape());
}

}  // namespace adjoint
