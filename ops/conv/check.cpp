#include <adjoint/ops/conv/check.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace adjoint {
namespace {

// ---- Words of the messages.

std::string operands(const ConvCall& call) {
  std::string text = fmt::format("input {}, weight {}", call.input.shape(), call.weight.shape());
  if (call.bias.defined()) text += fmt::format(", bias {}", call.bias.shape());
  return text;
}

template <class Values>
std::string words(const ConvCall& call, const Values& value) {
  switch (call.rank) {
    case 1: return fmt::format("{}", value.w);
    case 2: return fmt::format("({}, {})", value.h, value.w);
    default: return fmt::format("({}, {}, {})", value.d, value.h, value.w);
  }
}

std::string attributes(const ConvCall& call) {
  std::string text = fmt::format("stride {}, padding {}, dilation {}, groups {}", words(call, call.stride),
                                 words(call, call.padding), words(call, call.dilation), call.groups);
  if (call.transposed) {
    text += fmt::format(", output_padding {}", words(call, call.output_padding));
    if (call.output_size != Margins{}) text += fmt::format(", output_size {}", words(call, call.output_size));
  }
  return text;
}

const char* axis_name(const ConvCall& call, std::size_t axis) {
  constexpr std::array kNames{"depth", "height", "width"};
  return call.rank == 1 ? "length" : kNames[axis];
}

// ---- Rules, in the order in which they are checked.

void check_ranks(const ConvCall& call) {
  check_defined(call.op, "input", call.input);
  check_defined(call.op, "weight", call.weight);
  const std::string axes = std::array{"L", "H, W", "D, H, W"}[static_cast<std::size_t>(call.rank) - 1];
  const std::string input_axes = fmt::format("(N, C, {}) or (C, {})", axes, axes);
  const std::string weight_axes =
      fmt::format("({} / groups, {})", call.transposed ? "C, O" : "O, C",
                  std::array{"k", "kh, kw", "kd, kh, kw"}[static_cast<std::size_t>(call.rank) - 1]);
  ADJOINT_CHECK(call.input.dim() == call.rank + 2 || call.input.dim() == call.rank + 1,
                "{}: input must have {} axes, or {} without the batch; got {}; pass input as {}", call.op,
                call.rank + 2, call.rank + 1, operands(call), input_axes);
  ADJOINT_CHECK(call.weight.dim() == call.rank + 2, "{}: weight must have {} axes; got {}; pass weight as {}", call.op,
                call.rank + 2, operands(call), weight_axes);
  ADJOINT_CHECK(!call.bias.defined() || call.bias.dim() == 1,
                "{}: bias must have 1 axis; got {}; pass one value for each output channel, or Tensor{{}} for no bias",
                call.op, operands(call));
}

void check_kind(const ConvCall& call, const char* name, const Tensor& operand) {
  ADJOINT_CHECK(operand.dtype() == call.input.dtype(),
                "{}: {} and input must have one dtype; got input {} of {}, {} {} of {}; convert one with .to(dtype)",
                call.op, name, call.input.shape(), call.input.dtype(), name, operand.shape(), operand.dtype());
  ADJOINT_CHECK(operand.device() == call.input.device(),
                "{}: {} and input must be on one device; got input {} on {}, {} {} on {}; move one with .to(device)",
                call.op, name, call.input.shape(), call.input.device(), name, operand.shape(), operand.device());
}

void check_kinds(const ConvCall& call) {
  ADJOINT_CHECK(is_floating_point(call.input.dtype()),
                "{}: input must be of a floating-point dtype; got {} of {}; convert it with .to(dtype)", call.op,
                operands(call), call.input.dtype());
  check_kind(call, "weight", call.weight);
  if (call.bias.defined()) check_kind(call, "bias", call.bias);
}

template <class Values>
void check_at_least(const ConvCall& call, const char* name, const Values& value, std::int64_t least) {
  ADJOINT_CHECK(std::min({value.d, value.h, value.w}) >= least,
                "{}: {} must be at least {}; got {} {} for {}; pass {} or more", call.op, name, least, name,
                words(call, value), operands(call), least);
  ADJOINT_CHECK(std::max({value.d, value.h, value.w}) <= kMaxConvStep,
                "{}: {} must be at most 2^40; got {} {} for {}; pass less", call.op, name, name, words(call, value),
                operands(call));
}

void check_attributes(const ConvCall& call) {
  check_at_least(call, "stride", call.stride, 1);
  check_at_least(call, "padding", call.padding, 0);
  check_at_least(call, "dilation", call.dilation, 1);
  ADJOINT_CHECK(!call.causal || call.padding.d <= kMaxConvStep / 2,
                "{}: causal padding must be at most 2^39; got padding {} for {}; pass less", call.op,
                words(call, call.padding), operands(call));
  ADJOINT_CHECK(call.groups >= 1,
                "{}: groups must be at least 1; got groups {} for {}; pass 1 for an ordinary convolution", call.op,
                call.groups, operands(call));
  if (!call.transposed) return;
  check_at_least(call, "output_padding", call.output_padding, 0);
  ADJOINT_CHECK(
      std::min({call.output_size.d, call.output_size.h, call.output_size.w}) >= 0,
      "{}: output_size must be positive, or 0 for none; got output_size {} for {}; leave it out to use output_padding",
      call.op, words(call, call.output_size), operands(call));
  for (std::size_t axis = call.first_axis(); axis < 3; ++axis) {
    const std::int64_t limit = std::max(call.stride[axis], call.dilation[axis]);
    ADJOINT_CHECK(
        call.output_size[axis] != 0 || call.output_padding[axis] < limit,
        "{}: output_padding must be below stride or below dilation; got output_padding {}, stride {}, dilation {} for "
        "{}; pass at most {} for the {}",
        call.op, words(call, call.output_padding), words(call, call.stride), words(call, call.dilation), operands(call),
        limit - 1, axis_name(call, axis));
  }
}

void check_extents(const ConvCall& call) {
  const Shape& input = call.input.shape();
  const std::size_t first = call.batched() ? 1 : 0;
  for (std::size_t axis = first; axis < input.size(); ++axis) {
    ADJOINT_CHECK(input[axis] >= 1, "{}: input's {} must be at least 1; got {}; only the batch may be empty", call.op,
                  axis == first ? "channels" : axis_name(call, axis - first - 1 + call.first_axis()), operands(call));
  }
  for (std::int64_t extent : call.weight.shape()) {
    ADJOINT_CHECK(extent >= 1,
                  "{}: weight's channels and kernel size must be at least 1; got {}; an empty weight has no result",
                  call.op, operands(call));
  }
}

// ---- 64-bit arithmetic that notices when it leaves 64 bits.

using Checked = std::optional<std::int64_t>;

Checked add(Checked a, Checked b) {
  std::int64_t sum = 0;
  return a && b && !__builtin_add_overflow(*a, *b, &sum) ? Checked(sum) : std::nullopt;
}
Checked multiply(Checked a, Checked b) {
  std::int64_t product = 0;
  return a && b && !__builtin_mul_overflow(*a, *b, &product) ? Checked(product) : std::nullopt;
}

std::int64_t require(const ConvCall& call, const char* quantity, Checked value) {
  ADJOINT_CHECK(value.has_value(), "{}: {} must fit in 63 bits; got {}, {}; pass smaller extents or attributes",
                call.op, quantity, operands(call), attributes(call));
  return *value;
}

// ---- The result's extents.

std::int64_t conv_extent(const ConvCall& call, std::size_t axis, std::int64_t in, std::int64_t kernel) {
  const std::int64_t padded = require(call, "the padded input", add(in, multiply(2, call.padding[axis])));
  const std::int64_t span = require(call, "the dilated kernel", add(multiply(call.dilation[axis], kernel - 1), 1));
  ADJOINT_CHECK(span <= padded,
                "{}: the dilated kernel must not be longer than the padded input; got {} against {} in {} for {}, {}; "
                "use a smaller "
                "kernel or dilation, or more padding",
                call.op, span, padded, axis_name(call, axis), operands(call), attributes(call));
  return (padded - span) / call.stride[axis] + 1;
}

std::int64_t conv_transpose_extent(const ConvCall& call, std::size_t axis, std::int64_t in, std::int64_t kernel) {
  const Checked reach = add(multiply(in - 1, call.stride[axis]), add(multiply(call.dilation[axis], kernel - 1), 1));
  const std::int64_t smallest = require(call, "the result's extents", add(reach, multiply(-2, call.padding[axis])));
  const std::int64_t spare = std::max(call.stride[axis], call.dilation[axis]) - 1;
  const std::int64_t largest = require(call, "the result's extents", add(smallest, spare));
  if (call.output_size[axis] != 0) {
    ADJOINT_CHECK(
        call.output_size[axis] >= smallest && call.output_size[axis] <= largest,
        "{}: output_size's {} must be in [{}, {}]; got {}, {}; other sizes need another stride, padding or kernel",
        call.op, axis_name(call, axis), std::max<std::int64_t>(smallest, 1), largest, operands(call), attributes(call));
    return call.output_size[axis];
  }
  const std::int64_t extent = smallest + call.output_padding[axis];
  ADJOINT_CHECK(
      extent >= 1,
      "{}: the result's {} must be at least 1, and would be {}; got {}, {}; use less padding, a larger kernel or more "
      "output_padding",
      call.op, axis_name(call, axis), extent, operands(call), attributes(call));
  return extent;
}

// `wanted`: the number of channels for which weight was made.
void check_channels(const ConvCall& call, std::int64_t in_channels, std::int64_t wanted) {
  ADJOINT_CHECK(in_channels == wanted,
                "{}: input's axis {} must have the {} channels that weight is for; got {} channels, {}{}; pass another "
                "input or weight",
                call.op, call.batched() ? 1 : 0, wanted, in_channels, operands(call),
                call.groups == 1 ? "" : fmt::format(" in {} groups", call.groups));
}

// Checks channels, and their agreement with other operands. Returns the number of output channels.
std::int64_t resolve_channels(const ConvCall& call, std::int64_t in_channels) {
  const Shape& weight = call.weight.shape();
  const std::int64_t groups = call.groups;
  const char* op = call.op;
  ADJOINT_CHECK(!call.transposed || in_channels % groups == 0,
                "{}: groups must divide input's channels; got groups {} for {}; pass a divisor of {}", op, groups,
                operands(call), in_channels);
  std::int64_t out_channels = weight[0];
  if (call.transposed) {
    check_channels(call, in_channels, weight[0]);
    out_channels = weight[1] * groups;  // at most weight's number of elements
  } else {
    check_channels(call, in_channels, multiply(weight[1], groups).value_or(0));  // 0: matches no existing tensor
    ADJOINT_CHECK(out_channels % groups == 0,
                  "{}: groups must divide weight's first axis; got groups {} for {}; pass a divisor of {}", op, groups,
                  operands(call), out_channels);
  }
  ADJOINT_CHECK(!call.bias.defined() || call.bias.size(0) == out_channels,
                "{}: bias must have one value for each output channel; got groups {} for {}; pass {} values", op,
                groups, operands(call), out_channels);
  return out_channels;
}

}  // namespace

ConvGeometry resolve_geometry(const ConvCall& call) {
  check_ranks(call);
  check_kinds(call);
  check_attributes(call);
  check_extents(call);

  const Shape& input = call.input.shape();
  const std::size_t channel_axis = call.batched() ? 1 : 0;
  const std::int64_t in_channels = input[channel_axis];
  const std::int64_t out_channels = resolve_channels(call, in_channels);

  ConvGeometry geometry{.rank = call.rank,
                        .groups = call.groups,
                        .stride = call.stride,
                        .padding = call.padding,
                        .dilation = call.dilation};
  geometry.batch = call.batched() ? input[0] : 1;
  if (call.causal) geometry.padding.d *= 2;
  Extents in, out;
  for (std::size_t axis = call.first_axis(); axis < 3; ++axis) {
    const std::size_t spatial = axis - call.first_axis();
    in[axis] = input[channel_axis + 1 + spatial];
    geometry.kernel[axis] = call.weight.shape()[2 + spatial];
    const auto extent = call.transposed ? conv_transpose_extent : conv_extent;
    out[axis] = extent(call, axis, in[axis], geometry.kernel[axis]);
  }

  // Counts an empty batch as one, because kernels multiply a sample's extents.
  const std::int64_t samples = std::max<std::int64_t>(geometry.batch, 1);
  for (const auto& [extents, channels] : {std::pair(out, out_channels), std::pair(in, in_channels)}) {
    const Checked sample = multiply(channels, multiply(extents.d, multiply(extents.h, extents.w)));
    require(call, "the bytes of input and result",
            multiply(multiply(sample, samples), element_size(call.input.dtype())));
  }

  geometry.image_channels = call.transposed ? out_channels : in_channels;
  geometry.feature_channels = call.transposed ? in_channels : out_channels;
  geometry.image = call.transposed ? out : in;
  geometry.feature = call.transposed ? in : out;
  return geometry;
}

void rethrow_out_of_memory(const ConvCall& call, const OutOfMemoryError& error) {
  const std::string_view message = error.what();  // the call's name, and the available memory
  throw OutOfMemoryError(fmt::format("{}: the result must fit in memory; got {}, {}; {}", call.op, operands(call),
                                     attributes(call), message.substr(message.find(": ") + 2)));
}

}  // namespace adjoint
