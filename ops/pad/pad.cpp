// pad: cuts are views; growing axes are a gather by a map of each axis, whose adjoint is a gather too.
#include <adjoint/ops/pad/pad.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/promote.h>
#include <adjoint/ops/pad/kernels.h>
#include <adjoint/ops/view/memory_order.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

namespace adjoint {
namespace {

using Padding = std::vector<std::int64_t>;

Tensor padded(const Tensor& x, const PadAttr& attr);

Tensor added(const Tensor& grad, const PadAttr& attr);

std::optional<PadAttr> in_memory_order(Operands, const PadAttr& attr);

// The padded axes, with the amounts on either side.
struct PaddedAxis {
  std::int64_t axis, in, before, after;
};
std::vector<PaddedAxis> padded_axes(const PadAttr& attr) {
  std::vector<PaddedAxis> axes;
  for (std::size_t i = 0; i < attr.in.size(); ++i) {
    if (attr.in[i] == attr.out[i]) continue;
    axes.push_back(
        {static_cast<std::int64_t>(i), attr.in[i], attr.before[i], attr.out[i] - attr.in[i] - attr.before[i]});
  }
  return axes;
}

OnnxValue slice_onnx(OnnxCall& call, OnnxValue x, std::int64_t axis, std::int64_t start, std::int64_t end,
                     std::int64_t step = 1) {
  return call.add("Slice",
                  {x, call.integers({start}), call.integers({end}), call.integers({axis}), call.integers({step})});
}

OnnxValue pad_onnx(OnnxCall& call, const PadAttr& attr) {
  OnnxValue x = call.operand(0);
  if (attr.map.mode == PadMode::kCircular) {
    // Operator set 17's Pad does not wrap around.
    for (const auto& [axis, in, before, after] : padded_axes(attr)) {
      std::vector<OnnxValue> parts;
      if (before > 0) parts.push_back(slice_onnx(call, x, axis, -before, INT64_MAX));
      parts.push_back(x);
      if (after > 0) parts.push_back(slice_onnx(call, x, axis, 0, after));
      x = call.add_node("Concat", parts, {{"axis", axis}}, 1).front();
    }
    return x;
  }
  const std::size_t rank = attr.in.size();
  std::vector<std::int64_t> pads(2 * rank);
  for (const auto& [axis, in, before, after] : padded_axes(attr)) {
    pads[static_cast<std::size_t>(axis)] = before;
    pads[rank + static_cast<std::size_t>(axis)] = after;
  }
  if (attr.map.mode != PadMode::kConstant) {
    const char* const mode = attr.map.mode == PadMode::kReflect ? "reflect" : "edge";
    return call.add("Pad", {x, call.integers(pads)}, {{"mode", mode}});
  }
  if (attr.map.value == 0) return call.add("Pad", {x, call.integers(pads)});
  Tensor value = Tensor::empty({}, {.dtype = call.in[0].dtype()});
  std::memcpy(value.raw_mutable_data(), &attr.map.value, element_size(value.dtype()));
  return call.add("Pad", {x, call.integers(pads), call.constant(value)});
}

// The inner part, and at their sources the sums of the two parts around it.
OnnxValue pad_adjoint_onnx(OnnxCall& call, const PadAttr& attr) {
  OnnxValue g = call.operand(0);
  for (const auto& [axis, in, before, after] : padded_axes(attr)) {
    OnnxValue sum = slice_onnx(call, g, axis, before, before + in);
    // A part (first, last) of g, backwards for a reflection, at place `at` of the axis.
    const auto add_part = [&, along = axis, extent = in](std::int64_t first, std::int64_t end, std::int64_t at) {
      if (first == end) return;
      const bool reflects = attr.map.mode == PadMode::kReflect;
      OnnxValue part = reflects ? slice_onnx(call, g, along, end - 1, first == 0 ? INT64_MIN : first - 1, -1)
                                : slice_onnx(call, g, along, first, end);
      const bool adds = attr.map.mode == PadMode::kReplicate;
      if (adds) part = call.add("ReduceSum", {part, call.integers({along})});
      std::vector<std::int64_t> pads(2 * attr.in.size());
      pads[static_cast<std::size_t>(along)] = at;
      pads[attr.in.size() + static_cast<std::size_t>(along)] = extent - at - (adds ? 1 : end - first);
      sum = call.add("Add", {sum, call.add("Pad", {part, call.integers(pads)})});
    };
    const std::int64_t end = before + in + after;
    switch (attr.map.mode) {
      case PadMode::kReflect:
        add_part(0, before, 1);
        add_part(before + in, end, in - 1 - after);
        break;
      case PadMode::kReplicate:
        add_part(0, before, 0);
        add_part(before + in, end, in - 1);
        break;
      default: add_part(0, before, in - before); add_part(before + in, end, 0);
    }
    g = sum;
  }
  return g;
}

constinit const OpDef<PadAttr> pad_op{.name = "pad",
                                      .infer =
                                          [](Operands in, const PadAttr& attr) {
                                            return TensorSpec{attr.out, in[0].dtype()};
                                          },
                                      .cpu = cpu::pad,
                                      .cuda = ADJOINT_IF_CUDA(cuda::pad),
                                      .formats = Formats::kImages,
                                      .in_memory_order = in_memory_order,
                                      .onnx = pad_onnx,
                                      .vjp = {Vjp<PadAttr>{kSaveNone, [](const Ctx<PadAttr>& c) {
                                                             return added(c.grad, c.attr);
                                                           }}}};

constinit const OpDef<PadAttr> pad_adjoint_op{.name = "pad_adjoint",
                                              .infer =
                                                  [](Operands in, const PadAttr& attr) {
                                                    return TensorSpec{attr.in, in[0].dtype()};
                                                  },
                                              .cpu = cpu::pad_adjoint,
                                              .cuda = ADJOINT_IF_CUDA(cuda::pad_adjoint),
                                              .formats = Formats::kImages,
                                              .in_memory_order = in_memory_order,
                                              .onnx = pad_adjoint_onnx,
                                              .vjp = {Vjp<PadAttr>{kSaveNone, [](const Ctx<PadAttr>& c) {
                                                                     PadAttr linear = c.attr;
                                                                     linear.map.value = 0;
                                                                     return padded(c.grad, linear);
                                                                   }}}};

Tensor padded(const Tensor& x, const PadAttr& attr) { return apply(pad_op, {x}, attr); }

Tensor added(const Tensor& grad, const PadAttr& attr) {
  if (attr.map.mode != PadMode::kConstant) return apply(pad_adjoint_op, {grad}, attr);
  Tensor inside = grad;
  for (std::size_t axis = 0; axis < attr.in.size(); ++axis) {
    if (attr.in[axis] == attr.out[axis]) continue;
    inside = inside.narrow(static_cast<std::int64_t>(axis), attr.before[axis], attr.in[axis]);
  }
  return inside;
}

void check_amounts(const char* op, const Shape& shape, const Padding& padding) {
  ADJOINT_CHECK(
      padding.size() % 2 == 0 && padding.size() / 2 <= shape.size(),
      "{}: padding must hold a (before, after) pair for each of x's axes at most, the last axis first; got {} "
      "numbers for x {}; write {{left, right, top, bottom}}",
      op, padding.size(), shape);
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::int64_t before = padding[2 * pair], after = padding[2 * pair + 1];
    const std::size_t axis = shape.size() - 1 - pair;
    const std::int64_t extent = shape[axis];
    const bool cuts_fit = before >= -extent && after >= -extent &&
                          extent + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0) >= 0;
    ADJOINT_CHECK(cuts_fit, "{}: cuts must leave an extent of 0 at least; got ({}, {}) for axis {} of x {}; cut less",
                  op, before, after, axis, shape);
    std::int64_t sum = 0;
    const bool overflows = __builtin_add_overflow(extent, before, &sum) || __builtin_add_overflow(sum, after, &sum);
    ADJOINT_CHECK(!overflows,
                  "{}: the result's extents must fit in 63 bits; got ({}, {}) for axis {} of x {}; pad less", op,
                  before, after, axis, shape);
  }
}

// The most padding that a mode can provide for an axis of this extent.
std::int64_t most(PadMode mode, std::int64_t extent) {
  switch (mode) {
    case PadMode::kReflect: return std::max<std::int64_t>(extent - 1, 0);
    case PadMode::kCircular: return extent;
    case PadMode::kReplicate: return extent > 0 ? INT64_MAX : 0;
    default: return INT64_MAX;
  }
}

void check_reach(const char* op, const Shape& shape, const Padding& padding, PadMode mode) {
  constexpr const char* kRules[] = {"", "reflect: padding must be less than the extent",
                                    "replicate: the extent must be positive",
                                    "circular: padding must be the extent at most"};
  check_enumerator(op, "PadMode", mode, PadMode::kCircular);
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::int64_t before = padding[2 * pair], after = padding[2 * pair + 1];
    const std::size_t axis = shape.size() - 1 - pair;
    const std::int64_t left = shape[axis] + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    ADJOINT_CHECK(std::max(before, after) <= most(mode, left), "{}: {}; got ({}, {}) for axis {} of x {}; pad less", op,
                  kRules[static_cast<std::size_t>(mode)], before, after, axis, shape);
  }
}

// An extent that a call of the kernels treats as one: neighbouring unpadded axes are merged.
struct Merged {
  PadAxis axis;
  std::size_t first;  // of the merged tensor axes

  bool padded() const { return axis.in != axis.out; }
};

// The last axis first.
std::vector<Merged> merged(const Shape& in, const Shape& out, const Dims& before) {
  std::vector<Merged> all;
  for (std::size_t i = in.size(); i-- > 0;) {
    const Merged next{{in[i], out[i], before[i]}, i};
    if (!next.padded() && !all.empty() && !all.back().padded()) {
      // Extents of a tensor without elements may have any product; nothing is computed from it.
      std::int64_t product = 0;
      static_cast<void>(__builtin_mul_overflow(all.back().axis.in, next.axis.in, &product));
      all.back() = {{product, product, 0}, i};
    } else {
      all.push_back(next);
    }
  }
  return all;
}

// Of a tensor in channels_last, as one of (N, ..., C); empty if more axes would be padded, or between, than the kernels
// support.
std::optional<PadAttr> in_memory_order(Operands, const PadAttr& attr) {
  const std::size_t rank = attr.in.size();
  PadAttr own = attr;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t at = memory_axis(axis, rank);
    own.in[at] = attr.in[axis], own.out[at] = attr.out[axis], own.before[at] = attr.before[axis];
  }
  const std::vector<Merged> axes = merged(own.in, own.out, own.before);
  constexpr std::size_t kMost = std::size(PadMap{}.axes);
  for (std::size_t i = kMost; i < axes.size(); ++i) {
    if (axes[i].padded()) return {};
  }
  for (std::size_t i = 0; i < kMost; ++i) own.map.axes[kMost - 1 - i] = i < axes.size() ? axes[i].axis : PadAxis{};
  return own;
}

// Three axes per call, the last ones first.
std::vector<PadAttr> stages(const Shape& shape, const Padding& padding, PadMode mode, std::uint64_t value) {
  std::vector<PadAttr> all;
  Shape in = shape, last = shape;
  Dims before = Dims::filled(shape.size(), 0);
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::size_t axis = shape.size() - 1 - pair;
    before[axis] = std::max<std::int64_t>(padding[2 * pair], 0);
    last[axis] += before[axis] + std::max<std::int64_t>(padding[2 * pair + 1], 0);
  }
  while (!(in == last)) {
    PadAttr attr{.map = {.axes = {}, .mode = mode, .value = value}, .in = in, .out = in, .before = before};
    const std::vector<Merged> axes = merged(in, last, before);
    std::size_t first = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, axes.size()); ++i) {
      attr.map.axes[2 - i] = axes[i].axis;
      first = axes[i].first;
    }
    for (std::size_t axis = first; axis < in.size(); ++axis) attr.out[axis] = last[axis];
    in = attr.out;
    all.push_back(attr);
  }
  return all;
}

Tensor cut(const Tensor& x, const Padding& padding) {
  Tensor result = x;
  for (std::size_t pair = 0; pair < padding.size() / 2; ++pair) {
    const std::int64_t axis = x.dim() - 1 - static_cast<std::int64_t>(pair);
    const std::int64_t before = std::max<std::int64_t>(-padding[2 * pair], 0);
    const std::int64_t after = std::max<std::int64_t>(-padding[2 * pair + 1], 0);
    if (before + after > 0) result = result.narrow(axis, before, result.size(axis) - before - after);
  }
  return result;
}

Shape cut_shape(const Shape& shape, const Padding& padding) {
  Shape left = shape;
  for (std::size_t i = 0; i < padding.size(); ++i)
    left[shape.size() - 1 - i / 2] += std::min<std::int64_t>(padding[i], 0);
  return left;
}

std::uint64_t bits_of(double value, DType dtype) {
  std::uint64_t bits = 0;
  visit(dtype, [&]<class T>() {
    const T element = convert<T>(value);
    std::memcpy(&bits, &element, sizeof(T));
  });
  return bits;
}

}  // namespace

PadMode enumerator(std::string_view name, PadMode) {
  constexpr const char* kNames[] = {"constant", "reflect", "replicate", "circular"};
  return static_cast<PadMode>(place_of("pad", name == "zeros" ? "constant" : name, kNames));
}

Tensor pad(const Tensor& x, const Padding& padding, Named<PadMode> named, double value) {
  const PadMode mode = named;
  const OpScope scope("pad");
  check_defined("pad", "x", x);
  check_amounts("pad", x.shape(), padding);
  check_reach("pad", x.shape(), padding, mode);
  ADJOINT_CHECK(mode == PadMode::kConstant || value == 0.0,
                "pad: a value needs PadMode::kConstant; got {}; leave it out", value);
  const double fitting = fit_scalar("pad", value, x.dtype(), x.shape());
  Tensor result = cut(x, padding);
  const std::vector<PadAttr> all = stages(result.shape(), padding, mode, bits_of(fitting, x.dtype()));
  for (const PadAttr& stage : all) result = padded(result, stage);
  // Cuts alone are a view, but the result of pad is a new tensor, as in PyTorch.
  return all.empty() ? result.clone() : result;
}

Tensor pad(const Tensor& x, const Padding& padding, double value) { return pad(x, padding, PadMode::kConstant, value); }

Tensor pad_adjoint(const Tensor& padded, const Shape& shape, const Padding& padding, Named<PadMode> named) {
  const PadMode mode = named;
  const OpScope scope("pad_adjoint");
  check_defined("pad_adjoint", "padded", padded);
  check_floating("pad_adjoint", padded.dtype());
  check_amounts("pad_adjoint", shape, padding);
  check_reach("pad_adjoint", shape, padding, mode);
  const Shape left = cut_shape(shape, padding);
  const std::vector<PadAttr> all = stages(left, padding, mode, 0);
  const Shape& expected = all.empty() ? left : all.back().out;
  ADJOINT_CHECK(padded.shape() == expected, "pad_adjoint: padded must be {}, the shape of pad's result; got {}",
                expected, padded.shape());
  Tensor result = padded;
  for (std::size_t i = all.size(); i-- > 0;) result = added(result, all[i]);
  if (left == shape) return all.empty() || mode == PadMode::kConstant ? result.clone() : result;
  Padding back;
  for (const std::int64_t amount : padding) back.push_back(std::max<std::int64_t>(-amount, 0));
  return pad(result, back);
}

}  // namespace adjoint
