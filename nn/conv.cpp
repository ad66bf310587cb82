// You are at stop 5 of 7 of the README's reading path, a layer: this is the layer of a convolution.
// optim/optimizer_step.cpp comes next.
#include <adjoint/nn/conv.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/warning.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/transposed_size.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::nn {
namespace {

// The options of all six, one value per spatial axis.
struct Layout {
  const char* type;
  std::int64_t in_channels, out_channels;
  std::vector<std::int64_t> kernel_size, stride, padding, output_padding, dilation;
  std::int64_t groups;
  bool bias;
  PadMode padding_mode;
  bool transposed;
  bool causal = false;

  Shape weight_shape() const {
    Shape shape = transposed ? Shape{in_channels, out_channels / groups} : Shape{out_channels, in_channels / groups};
    for (const std::int64_t extent : kernel_size) shape.push_back(extent);
    return shape;
  }
};

std::vector<std::int64_t> axes(std::int64_t length) { return {length}; }
std::vector<std::int64_t> axes(const Size2& size) { return {size.h, size.w}; }
std::vector<std::int64_t> axes(const Size3& size) { return {size.d, size.h, size.w}; }

template <class Options>
Layout layout(const char* type, std::int64_t in_channels, std::int64_t out_channels, const Options& o) {
  Layout layout{.type = type,
                .in_channels = in_channels,
                .out_channels = out_channels,
                .kernel_size = axes(o.kernel_size),
                .stride = axes(o.stride),
                .padding = axes(o.padding),
                .output_padding = {},
                .dilation = axes(o.dilation),
                .groups = o.groups,
                .bias = o.bias,
                .padding_mode = o.padding_mode,
                .transposed = false};
  if constexpr (requires { o.output_padding; }) {
    layout.transposed = true;
    layout.output_padding = axes(o.output_padding);
  }
  if constexpr (requires { o.causal; }) layout.causal = o.causal;
  return layout;
}

std::string tuple(const std::vector<std::int64_t>& values) { return to_string(Dims(values)); }

void warn_of_checkerboards(const Layout& layout) {
  for (std::size_t axis = 0; axis < layout.kernel_size.size(); ++axis) {
    const std::int64_t kernel = layout.kernel_size[axis], stride = layout.stride[axis];
    const std::vector<std::int64_t> taps = overlap_map(kernel, stride, layout.dilation[axis]);
    if (std::equal(taps.begin() + 1, taps.end(), taps.begin())) continue;
    std::string counts;
    for (const std::int64_t count : taps) counts += (counts.empty() ? "" : ", ") + std::to_string(count);
    adjoint::detail::warn(
        fmt::format("{}: kernel_size {} with stride {} adds up ({}) taps at the output's phases, which shows as a "
                    "checkerboard; a multiple of the stride does not",
                    layout.type, kernel, stride, counts));
    return;
  }
}

void check_at_least(const Layout& layout, const char* option, const std::vector<std::int64_t>& values,
                    std::int64_t least) {
  ADJOINT_CHECK(*std::min_element(values.begin(), values.end()) >= least, "{}: {} must be at least {}; got {}",
                layout.type, option, least, tuple(values));
}

bool is_all(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::count(values.begin(), values.end(), value) == static_cast<std::ptrdiff_t>(values.size());
}

bool is_same(const Layout& l) { return !l.transposed && is_all(l.padding, kSame); }

void check(const Layout& l) {
  ADJOINT_CHECK(l.groups >= 1, "{}: groups must be at least 1; got {}", l.type, l.groups);
  for (const auto& [option, channels] : {std::pair{"in_channels", l.in_channels}, {"out_channels", l.out_channels}}) {
    ADJOINT_CHECK(channels >= 1, "{}: {} must be at least 1; got {}", l.type, option, channels);
    ADJOINT_CHECK(channels % l.groups == 0, "{}: groups must divide {}; got {} groups, {} channels", l.type, option,
                  l.groups, channels);
  }
  check_at_least(l, "kernel_size", l.kernel_size, 1);
  check_at_least(l, "stride", l.stride, 1);
  check_at_least(l, "dilation", l.dilation, 1);
  check_enumerator(l.type, "PadMode", l.padding_mode, PadMode::kCircular);
  if (is_same(l)) {
    ADJOINT_CHECK(is_all(l.stride, 1), "{}: padding kSame needs a stride of 1; got stride {}", l.type, tuple(l.stride));
  } else {
    check_at_least(l, "padding", l.padding, 0);
  }
  if (!l.transposed) return;
  check_at_least(l, "output_padding", l.output_padding, 0);
  for (std::size_t axis = 0; axis < l.stride.size(); ++axis) {
    ADJOINT_CHECK(
        l.output_padding[axis] < std::max(l.stride[axis], l.dilation[axis]),
        "{}: output_padding must be below stride or below dilation; got output_padding {}, stride {}, dilation {}",
        l.type, tuple(l.output_padding), tuple(l.stride), tuple(l.dilation));
  }
}

// Like PyTorch's: omits options with their default value.
std::string describe(const Layout& l) {
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", l.in_channels, l.out_channels,
                                 tuple(l.kernel_size), tuple(l.stride));
  if (is_same(l)) text += ", padding=same";
  if (!is_same(l) && !is_all(l.padding, 0)) text += ", padding=" + tuple(l.padding);
  if (!is_all(l.dilation, 1)) text += ", dilation=" + tuple(l.dilation);
  if (!is_all(l.output_padding, 0)) text += ", output_padding=" + tuple(l.output_padding);
  if (l.groups != 1) text += fmt::format(", groups={}", l.groups);
  if (!l.bias) text += ", bias=False";
  constexpr const char* kModes[] = {"zeros", "reflect", "replicate", "circular"};
  const auto mode = static_cast<std::size_t>(l.padding_mode);
  if (mode != 0) text += fmt::format(", padding_mode={}", kModes[mode]);
  if (l.causal) text += ", causal=True";
  return text;
}

template <class M>
void make_parameters(M& module, const Layout& layout) {
  const OpScope scope(layout.type);
  module.weight = module.register_parameter("weight", Tensor::empty(layout.weight_shape()));
  const Tensor bias = layout.bias ? Tensor::empty({layout.out_channels}) : Tensor();
  module.bias = module.register_parameter("bias", bias, {.optional = true});
  init::default_(module.weight, module.bias);
}

// A call's input and padding. Padding that convolutions do not support, other modes and one more element behind, is
// applied to the input first.
template <class Extent>
struct Padded {
  Tensor input;
  Extent padding;
};

template <class Extent, class Options>
Padded<Extent> padded(const char* type, const Tensor& input, const Options& o) {
  const bool same = o.padding == Extent(kSame), zeros = o.padding_mode == PadMode::kConstant;
  if (zeros && !same) return {input, o.padding};
  const std::vector<std::int64_t> dilation = axes(o.dilation), kernel = axes(o.kernel_size), padding = axes(o.padding);
  std::vector<std::int64_t> sides;  // the last axis first
  bool even = true;
  for (std::size_t axis = dilation.size(); axis-- > 0;) {
    const std::int64_t total = same ? dilation[axis] * (kernel[axis] - 1) : 2 * padding[axis];
    sides.push_back(total / 2);
    sides.push_back(total - total / 2);
    even &= total % 2 == 0;
  }
  if (zeros && even) {
    if constexpr (std::is_same_v<Extent, Size3>) {
      return {input, Size3(sides[4], sides[2], sides[0])};
    } else if constexpr (std::is_same_v<Extent, Size2>) {
      return {input, Size2(sides[2], sides[0])};
    } else {
      return {input, sides[0]};
    }
  }
  if constexpr (requires { o.causal; }) {
    if (o.causal) {
      sides[4] += sides[5];
      sides[5] = 0;
    }
  }
  const OpScope scope(type);
  return {pad(input, sides, o.padding_mode), Extent(0)};
}

// The adjoint of padding each of the result's last axes by `padding` on either side, and of the rest of the padding
// behind it.
Tensor folded(const char* type, const Tensor& wide, const std::vector<std::int64_t>& padding, PadMode mode,
              const Tensor& bias, const Activation& activation) {
  Shape shape = wide.shape();
  std::vector<std::int64_t> sides;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const std::int64_t amount = padding[padding.size() - 1 - i];
    shape[shape.size() - 1 - i] -= 2 * amount;
    ADJOINT_CHECK(shape[shape.size() - 1 - i] > 0,
                  "{}: the result's extents must be positive; got {} before a padding of {}", type, wide.shape(),
                  tuple(padding));
    sides.insert(sides.end(), 2, amount);
  }
  const OpScope scope(type);
  Tensor result = pad_adjoint(wide, shape, sides, mode);
  if (bias.defined()) {
    Shape channels = Shape(Dims::filled(padding.size() + 1, 1));
    channels[0] = bias.numel();
    result = result + bias.reshape(channels);
  }
  return activate(result, activation);
}

// The output_padding of an axis, if the call requests no size for it.
std::int64_t padding_of(std::int64_t output_size, std::int64_t output_padding) {
  return output_size == 0 ? output_padding : 0;
}

}  // namespace

std::int64_t Padding1::named(std::string_view name) {
  constexpr const char* kNames[] = {"same", "valid"};
  return place_of("padding", name, kNames) == 0 ? kSame : 0;
}

void detail::kernel_size_twice(const char* type) {
  fail("{}: kernel_size must be given once; got it in front of the options and among them", type);
}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv1dOptions& options)
    : Module("Conv1d"), options_(options) {
  const Layout made = layout("Conv1d", in_channels, out_channels, options);
  check(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor Conv1d::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}); });
}

Tensor Conv1d::activated(const Tensor& input, const Activation& activation) const {
  check_not_moved_from("Conv1d");
  const auto [x, padding] = padded<std::int64_t>("Conv1d", input, options_);
  return conv1d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups,
                 .activation = activation});
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options)
    : Module("Conv2d"), options_(options) {
  const Layout made = layout("Conv2d", in_channels, out_channels, options);
  check(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor Conv2d::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}); });
}

Tensor Conv2d::activated(const Tensor& input, const Activation& activation) const {
  check_not_moved_from("Conv2d");
  const auto [x, padding] = padded<Size2>("Conv2d", input, options_);
  return conv2d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups,
                 .activation = activation});
}

Conv3d::Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Conv3dOptions& options)
    : Module("Conv3d"), options_(options) {
  const Layout made = layout("Conv3d", in_channels, out_channels, options);
  check(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor Conv3d::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}); });
}

Tensor Conv3d::activated(const Tensor& input, const Activation& activation) const {
  check_not_moved_from("Conv3d");
  const auto [x, padding] = padded<Size3>("Conv3d", input, options_);
  return conv3d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups,
                 .activation = activation,
                 .causal = options_.causal});
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                                 const ConvTranspose1dOptions& options)
    : Module("ConvTranspose1d"), options_(options) {
  const Layout made = layout("ConvTranspose1d", in_channels, out_channels, options);
  check(made);
  if (checkerboard_warning()) warn_of_checkerboards(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor ConvTranspose1d::operator()(const Tensor& input, const OutputSize1d& call) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}, call); });
}

Tensor ConvTranspose1d::activated(const Tensor& input, const Activation& activation, const OutputSize1d& call) const {
  check_not_moved_from("ConvTranspose1d");
  const bool folds = options_.padding_mode != PadMode::kConstant;
  const std::int64_t around = folds && call.output_size != 0 ? 2 * options_.padding : 0;
  const Tensor result = conv_transpose1d(input, weight, folds ? Tensor() : Tensor(bias),
                                         {.stride = options_.stride,
                                          .padding = folds ? 0 : options_.padding,
                                          .output_padding = padding_of(call.output_size, options_.output_padding),
                                          .dilation = options_.dilation,
                                          .groups = options_.groups,
                                          .output_size = call.output_size + around,
                                          .activation = folds ? Activation() : activation});
  return folds ? folded("ConvTranspose1d", result, axes(options_.padding), options_.padding_mode, bias, activation)
               : result;
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 const ConvTranspose2dOptions& options)
    : Module("ConvTranspose2d"), options_(options) {
  const Layout made = layout("ConvTranspose2d", in_channels, out_channels, options);
  check(made);
  if (checkerboard_warning()) warn_of_checkerboards(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor ConvTranspose2d::operator()(const Tensor& input, const OutputSize2d& call) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}, call); });
}

Tensor ConvTranspose2d::activated(const Tensor& input, const Activation& activation, const OutputSize2d& call) const {
  check_not_moved_from("ConvTranspose2d");
  const Size2 &size = call.output_size, &extra = options_.output_padding, &padding = options_.padding;
  const bool folds = options_.padding_mode != PadMode::kConstant;
  const auto around = [&](std::int64_t asked, std::int64_t pad) {
    return folds && asked != 0 ? asked + 2 * pad : asked;
  };
  const Tensor result = conv_transpose2d(input, weight, folds ? Tensor() : Tensor(bias),
                                         {.stride = options_.stride,
                                          .padding = folds ? Size2(0) : padding,
                                          .output_padding = {padding_of(size.h, extra.h), padding_of(size.w, extra.w)},
                                          .dilation = options_.dilation,
                                          .groups = options_.groups,
                                          .output_size = {around(size.h, padding.h), around(size.w, padding.w)},
                                          .activation = folds ? Activation() : activation});
  return folds ? folded("ConvTranspose2d", result, axes(padding), options_.padding_mode, bias, activation) : result;
}

ConvTranspose3d::ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels,
                                 const ConvTranspose3dOptions& options)
    : Module("ConvTranspose3d"), options_(options) {
  const Layout made = layout("ConvTranspose3d", in_channels, out_channels, options);
  check(made);
  if (checkerboard_warning()) warn_of_checkerboards(made);
  set_description(describe(made));
  make_parameters(*this, made);
}

Tensor ConvTranspose3d::operator()(const Tensor& input, const OutputSize3d& call) const {
  return hooked(input, [&](const Tensor& x) { return activated(x, {}, call); });
}

Tensor ConvTranspose3d::activated(const Tensor& input, const Activation& activation, const OutputSize3d& call) const {
  check_not_moved_from("ConvTranspose3d");
  const Size3 &size = call.output_size, &extra = options_.output_padding, &padding = options_.padding;
  const bool folds = options_.padding_mode != PadMode::kConstant;
  const auto around = [&](std::int64_t asked, std::int64_t pad) {
    return folds && asked != 0 ? asked + 2 * pad : asked;
  };
  const Tensor result = conv_transpose3d(
      input, weight, folds ? Tensor() : Tensor(bias),
      {.stride = options_.stride,
       .padding = folds ? Size3(0) : padding,
       .output_padding = {padding_of(size.d, extra.d), padding_of(size.h, extra.h), padding_of(size.w, extra.w)},
       .dilation = options_.dilation,
       .groups = options_.groups,
       .output_size = {around(size.d, padding.d), around(size.h, padding.h), around(size.w, padding.w)},
       .activation = folds ? Activation() : activation});
  return folds ? folded("ConvTranspose3d", result, axes(padding), options_.padding_mode, bias, activation) : result;
}

}  // namespace adjoint::nn
