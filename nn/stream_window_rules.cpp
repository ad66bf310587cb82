// The rules of convolution and pooling: windows along one or two axes, one of which is time.
#include <adjoint/nn/stream_rules.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/elementwise/activation.h>
#include <adjoint/ops/pool/pool.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

namespace adjoint::nn::detail {
namespace {

// The attributes of one axis of a window.
struct WindowAxis {
  std::int64_t kernel = 1, stride = 1, before = 0, after = 0, dilation = 1;

  std::int64_t span() const { return dilation * (kernel - 1) + 1; }
  Reach reach() const { return {span(), stride, before, after}; }
};

struct WindowAxes {
  std::vector<WindowAxis> axes;
  std::size_t time;  // among them

  const WindowAxis& along_time() const { return axes[time]; }
  // A member of both axes; of time, `of_time`.
  Size2 both(std::int64_t WindowAxis::*member, std::int64_t of_time) const {
    const auto value = [&](std::size_t i) { return i == time ? of_time : axes[i].*member; };
    return {value(0), value(1)};
  }
  Size2 both(std::int64_t WindowAxis::*member) const { return both(member, along_time().*member); }
};

WindowAxes window_axes(const SignalCall& call, const SignalCall::Node& node, const Signal& x) {
  const Ints kernel = integers_of(node, "kernel_shape"), strides = integers_of(node, "strides"),
             pads = integers_of(node, "pads"), dilations = integers_of(node, "dilations");
  const std::size_t rank = kernel.size();
  if (rank > 2) call.refuse("of volumes");
  WindowAxes all{{}, x.axis + rank - x.shape.size()};
  if (x.axis + rank < x.shape.size()) call.refuse("whose window does not move along the time axis");
  for (std::size_t i = 0; i < rank; ++i)
    all.axes.push_back({kernel[i], strides[i], pads[i], pads[rank + i], dilations.empty() ? 1 : dilations[i]});
  return all;
}

// The activation that a convolution fuses, from the nodes behind its own.
Activation fused_activation(const SignalCall& call, std::size_t behind) {
  if (behind == call.nodes.size()) return {};
  const SignalCall::Node& node = call.nodes[behind];
  if (node.type == "Relu") return Activation::relu();
  if (node.type == "LeakyRelu") return Activation::leaky_relu(number_of(node, "alpha", 0.01));
  if (node.type == "Tanh") return Activation::tanh();
  if (node.type == "Sigmoid") return behind + 1 == call.nodes.size() ? Activation::sigmoid() : Activation::silu();
  call.refuse("of an unusual form");
}

}  // namespace

void conv_rule(StreamProgram& program, SignalCall& call) {
  check_filter(call);
  const SignalCall::Node& node = first_node(call, "Conv");
  const Signal& x = program.operand(call, 0);
  const WindowAxes all = window_axes(call, node, x);
  const std::int64_t groups = integer_of(node, "group", 1);
  const Activation activation = fused_activation(call, 1);
  const Tensor weight = call.in[1], bias = call.in[2];
  program.define(call, 0, program.local(x, all.along_time().reach(), 0.0, [=](const Tensor& read) {
    if (all.axes.size() == 1) {
      const WindowAxis& axis = all.axes[0];
      return conv1d(
          read, weight, bias,
          Conv1dParams{.stride = axis.stride, .dilation = axis.dilation, .groups = groups, .activation = activation});
    }
    return conv2d(read, weight, bias,
                  Conv2dParams{.stride = all.both(&WindowAxis::stride),
                               .padding = all.both(&WindowAxis::before, 0),
                               .dilation = all.both(&WindowAxis::dilation),
                               .groups = groups,
                               .activation = activation});
  }));
}

// Sample j of x reaches the outputs from j stride - before on, so that output t reads x from (t + before - span + 1) /
// stride to (t + before) / stride.
void conv_transpose_rule(StreamProgram& program, SignalCall& call) {
  check_filter(call);
  const std::size_t behind = call.nodes.empty() || call.nodes[0].type != "Pad" ? 0 : 1;  // its own output_padding
  if (behind >= call.nodes.size() || call.nodes[behind].type != "ConvTranspose") call.refuse("of an unusual form");
  const SignalCall::Node& node = call.nodes[behind];
  const Signal& x = program.operand(call, 0);
  const WindowAxes all = window_axes(call, node, x);
  const WindowAxis time = all.along_time();
  const std::int64_t groups = integer_of(node, "group", 1), axis = time_of(x);
  const Activation activation = fused_activation(call, behind + 1);
  const Tensor weight = call.in[1], bias = call.in[2];
  const std::int64_t history = (time.span() - 1) / time.stride,
                     beyond = std::max<std::int64_t>(0, time.stride - time.span());
  // The other axis keeps the length that its output_padding gave it.
  Size2 output_size = 0;
  if (all.axes.size() == 2) {
    const std::size_t other = 1 - all.time;
    (other == 0 ? output_size.h : output_size.w) = call.out[0].shape()[x.shape.size() - 2 + other];
  }
  Signal y = program.with_history(x, history, [=](const Tensor& read) {
    const std::int64_t block = (read.size(axis) - history) * time.stride;
    const auto transposed = [&] {
      if (all.axes.size() == 1)
        return conv_transpose1d(read, weight, bias,
                                ConvTranspose1dParams{.stride = time.stride,
                                                      .output_padding = beyond,
                                                      .dilation = time.dilation,
                                                      .groups = groups,
                                                      .activation = activation});
      Size2 size = output_size;
      (all.time == 0 ? size.h : size.w) = (read.size(axis) - 1) * time.stride + time.span() + beyond;
      return conv_transpose2d(read, weight, bias,
                              ConvTranspose2dParams{.stride = all.both(&WindowAxis::stride),
                                                    .padding = all.both(&WindowAxis::before, 0),
                                                    .dilation = all.both(&WindowAxis::dilation),
                                                    .groups = groups,
                                                    .output_size = size,
                                                    .activation = activation});
    };
    const Tensor whole = transposed();
    return whole.size(axis) == block ? whole : whole.narrow(axis, history * time.stride, block);
  });
  y.up *= time.stride;
  y.delay = y.delay * time.stride + time.before;  // y may be later than x
  const std::int64_t added = call.out[0].size(axis) - call.in[0].size(axis) * time.stride;
  y.length = program.add_length({x.length, time.stride, added, 1});
  program.define(call, 0, y);
}

void pool_rule(StreamProgram& program, SignalCall& call) {
  const bool is_max = call.name == "max_pool";
  if (call.out.size() != 1) call.refuse("with indices, which count from the start of the signal");
  const SignalCall::Node* const node = call.find(is_max ? "MaxPool" : "AveragePool");
  const auto is_plain = [&](const SignalCall::Node& n) {
    return &n == node || n.type == "Unsqueeze" || n.type == "Squeeze";
  };
  if (node == nullptr || !std::all_of(call.nodes.begin(), call.nodes.end(), is_plain))
    call.refuse("whose windows depend on the length of the signal, or have padding that some lack");
  const Signal& x = program.operand(call, 0);
  const WindowAxes all = window_axes(call, *node, x);
  const WindowAxis time = all.along_time();
  const bool counts = integer_of(*node, "count_include_pad", 0) != 0, pads = time.before > 0;
  if (time.before != time.after || integer_of(*node, "ceil_mode", 0) != 0) call.refuse("with ceil_mode");
  if (!is_max && pads && !counts) call.refuse("whose windows at the ends of the signal have another divisor");
  const double padding = is_max ? -std::numeric_limits<double>::infinity() : 0.0;
  program.define(call, 0, program.local(x, time.reach(), padding, [=](const Tensor& read) {
    if (all.axes.size() == 1) {
      return is_max ? max_pool1d(read, time.kernel, MaxPool1dParams{.stride = time.stride, .dilation = time.dilation})
                    : avg_pool1d(read, time.kernel, AvgPool1dParams{.stride = time.stride});
    }
    const Size2 kernel = all.both(&WindowAxis::kernel), stride = all.both(&WindowAxis::stride);
    const Size2 around = all.both(&WindowAxis::before, 0);
    return is_max ? max_pool2d(read, kernel,
                               MaxPool2dParams{.stride = stride,
                                               .padding = around,
                                               .dilation = all.both(&WindowAxis::dilation)})
                  : avg_pool2d(read, kernel,
                               AvgPool2dParams{.stride = stride, .padding = around, .count_include_pad = counts});
  }));
}

}  // namespace adjoint::nn::detail
