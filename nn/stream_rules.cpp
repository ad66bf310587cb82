// The rules by which functions run on blocks. A function of one operand names the samples that it reads (local), or
// leaves the time axis alone (each). Functions that compute each element alone need no rule.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/stream_rules.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::nn::detail {
namespace {

using Program = StreamProgram;

// ---- Padding and slices along time move a signal: only its delay changes.

Signal shifted(Program& program, const Signal& x, std::int64_t before, std::int64_t after) {
  Signal y = x;
  y.delay -= before;
  y.length = program.add_length({x.length, 1, before + after, 1});
  if (y.around) {
    y.around->first += before;
    y.around->cut += after;
  }
  return y;
}

Signal surrounded(Program& program, const Signal& x, std::int64_t before, std::int64_t after, double value) {
  Signal y = x;
  y.around = x.around.value_or(Around{.value = value});
  y.around->first = std::max<std::int64_t>(y.around->first, 0);  // samples that were cut do not come back
  y.around->cut = std::max<std::int64_t>(y.around->cut, 0);
  return shifted(program, y, before, after);
}

void pad_rule(Program& program, SignalCall& call) {
  const SignalCall::Node& node = first_node(call, "Pad");
  const Ints pads = call.integers(node, 1);
  const double value = call.number(node, 2, 0.0);
  const std::size_t rank = pads.size() / 2;
  const bool is_constant = node.attributes.empty();
  Signal x = program.operand(call, 0);
  const std::int64_t before = pads[x.axis], after = pads[rank + x.axis];
  if (!is_constant && (before != 0 || after != 0)) call.refuse("which repeats samples at the ends of the signal");
  Ints others;
  for (std::size_t i = rank; i-- > 0;) {
    others.push_back(i == x.axis ? 0 : pads[i]);
    others.push_back(i == x.axis ? 0 : pads[rank + i]);
  }
  if (std::any_of(others.begin(), others.end(), [](std::int64_t n) { return n != 0; })) {
    if (!is_constant) call.refuse("with a padding mode other than constant");
    x = program.each(program.whole_operand(call, 0), [=](const Tensor& block) { return pad(block, others, value); });
  } else if (x.around && x.around->value != value) {
    x = program.whole_operand(call, 0);
  }
  program.define(call, 0, before == 0 && after == 0 ? x : surrounded(program, x, before, after, value));
}

void slice_rule(Program& program, SignalCall& call) {
  const SignalCall::Node& node = first_node(call, "Slice");
  const std::int64_t start = call.integers(node, 1)[0], end = call.integers(node, 2)[0],
                     axis = call.integers(node, 3)[0], step = call.integers(node, 4)[0];
  const Signal& x = program.operand(call, 0);
  const bool selects = call.find("Squeeze") != nullptr;
  if (axis == time_of(x)) {
    if (selects) call.refuse("which selects one sample of the signal, as a loop over time does");
    const std::int64_t cut = x.shape[x.axis] - end;
    if (step == 1) return program.define(call, 0, shifted(program, x, -start, -cut));
    return program.define(call, 0, program.local(x, {1, step, -start, -cut}, 0.0, [=](const Tensor& read) {
      return slice(read, axis, {}, {}, step);
    }));
  }
  Signal y = program.each(program.whole_operand(call, 0), [=](const Tensor& block) {
    return selects ? block.select(axis, start) : slice(block, axis, start, end, step);
  });
  if (selects && axis < time_of(x)) --y.axis;
  program.define(call, 0, y);
}

void split_rule(Program& program, SignalCall& call) {
  const SignalCall::Node& node = first_node(call, "Split");
  const Ints extents = call.integers(node, 1);
  const std::int64_t axis = integer_of(node, "axis", 0);
  const bool drops_axis = call.find("Squeeze") != nullptr;
  const Signal x = program.whole_operand(call, 0);
  if (axis == time_of(x)) call.refuse("which splits the signal along time");
  std::int64_t start = 0;
  for (std::size_t r = 0; r < extents.size(); ++r) {
    const std::int64_t extent = extents[r];
    Signal y = program.each(x, [=](const Tensor& block) {
      return drops_axis ? block.select(axis, start) : block.narrow(axis, start, extent);
    });
    if (drops_axis && axis < time_of(x)) --y.axis;
    program.define(call, r, y);
    start += extent;
  }
}

// ---- Views that keep time apart.

void permute_rule(Program& program, SignalCall& call) {
  const Ints axes = integers_of(first_node(call, "Transpose"), "perm");
  const Signal x = program.whole_operand(call, 0);
  const Dims order(axes.begin(), axes.end());
  Signal y = program.each(x, [=](const Tensor& block) { return block.permute(order); });
  y.axis = static_cast<std::size_t>(std::find(axes.begin(), axes.end(), time_of(x)) - axes.begin());
  program.define(call, 0, y);
}

// Time may absorb the axis behind it (more samples), or give it a part of itself (fewer).
void reshape_rule(Program& program, SignalCall& call) {
  const Signal x = program.whole_operand(call, 0);
  const Shape from = call.in[0].shape(), to = call.out[0].shape();
  const auto outer = [](const Shape& shape, std::size_t axis) {
    return Shape(shape.begin(), shape.begin() + axis).numel();
  };
  // Returns true if `extent` is that of some axes, of which `axis` is the first.
  const auto is_merged = [](const Shape& shape, std::size_t axis, std::int64_t extent) {
    std::int64_t product = 1;
    for (; axis < shape.size() && product < extent; ++axis) product *= shape[axis];
    return product == extent;
  };
  const std::int64_t before = outer(from, x.axis), samples = from[x.axis];
  std::optional<std::size_t> found;
  for (const bool exactly : {true, false}) {
    for (std::size_t axis = 0; axis < to.size() && !found; ++axis) {
      const bool fits = to[axis] == samples || (!exactly && to[axis] > 1 &&
                                                (is_merged(from, x.axis, to[axis]) || is_merged(to, axis, samples)));
      if (fits && outer(to, axis) == before) found = axis;
    }
  }
  if (!found) call.refuse(fmt::format("which mixes time with another axis: {} to {}", from, to));
  const std::size_t axis = *found;
  const std::int64_t more = std::max<std::int64_t>(1, to[axis] / samples),
                     fewer = std::max<std::int64_t>(1, samples / to[axis]);
  const auto as_block = [=](const Tensor& read) {
    const std::int64_t extent = read.size(time_of(x)) / fewer;
    Shape shape = to;
    shape[axis] = extent * more;
    return read.narrow(time_of(x), 0, extent * fewer).reshape(shape);
  };
  Signal y = fewer > 1 ? program.local(x, {fewer, fewer, 0, 0}, 0.0, as_block) : program.each(x, as_block);
  y.axis = axis;
  if (more > 1) {
    y.up *= more;
    y.delay *= more;
    y.length = program.add_length({x.length, more, 0, 1});
  }
  program.define(call, 0, y);
}

void expand_rule(Program& program, SignalCall& call) {
  const Signal x = program.whole_operand(call, 0);
  const Shape to = call.out[0].shape();
  const std::size_t axis = x.axis + to.size() - x.shape.size();
  Signal y = program.each(x, [=](const Tensor& block) {
    Shape shape = to;
    shape[axis] = block.size(static_cast<std::int64_t>(x.axis));
    return block.expand(shape);
  });
  y.axis = axis;
  program.define(call, 0, y);
}

// copy_, to, clone and contiguous.
void copy_rule(Program& program, SignalCall& call) {
  if (call.in[0].shape() != call.out[0].shape())
    call.refuse(fmt::format("from {} to {}", call.in[0].shape(), call.out[0].shape()));
  const DType dtype = call.out[0].dtype();
  program.define(call, 0,
                 program.each(program.whole_operand(call, 0), [=](const Tensor& block) { return block.to(dtype); }));
}

// ---- Functions of several signals.

// Constants of one value before and behind a signal are its padding.
void cat_along_time(Program& program, SignalCall& call) {
  std::int64_t around[2] = {0, 0};
  std::optional<std::size_t> signal;
  std::optional<double> value;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const Tensor& part = call.in[i];
    if (program.is_signal(call, i)) {
      if (signal) call.refuse("which joins signals one after the other");
      signal = i;
    } else if (part.numel() > 0) {
      around[signal ? 1 : 0] += part.size(integer_of(call.nodes[0], "axis", 0));
      const double low = amin(part).to(kFloat64).item<double>(), high = amax(part).to(kFloat64).item<double>();
      if (low != high || value.value_or(low) != low) call.refuse("with constants that differ along time");
      value = low;
    }
  }
  Signal x = program.operand(call, *signal);
  if (x.around && x.around->value != value) x = program.whole_operand(call, *signal);
  program.define(call, 0, surrounded(program, x, around[0], around[1], value.value_or(0.0)));
}

void cat_rule(Program& program, SignalCall& call) {
  const std::int64_t axis = integer_of(first_node(call, "Concat"), "axis", 0);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (program.is_signal(call, i) && axis == time_of(program.operand(call, i))) return cat_along_time(program, call);
  }
  const Program::Joined all = program.joined(call);
  program.define(call, 0, program.of_frame(all.signals[0], [=](const StreamFrame& frame) {
    return cat(all.operands(frame), axis);
  }));
}

// ---- Functions that reduce or mix other axes than time.

void reduce_rule(Program& program, SignalCall& call) {
  using Function = Tensor (*)(const Tensor&, const Dims&, bool);
  static constexpr std::pair<std::string_view, Function> kFunctions[] = {{"sum", sum},   {"mean", mean},
                                                                         {"prod", prod}, {"amax", amax},
                                                                         {"amin", amin}, {"logsumexp", logsumexp}};
  const auto* const function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                            [&](const auto& row) { return row.first == call.name; });
  const SignalCall::Node& node = call.nodes.back();
  Ints axes = integers_of(node, "axes");
  if (axes.empty()) axes = call.integers(node, 1);
  const bool keepdim = integer_of(node, "keepdims", 1) != 0;
  const Signal x = program.whole_operand(call, 0);
  if (axes.empty() || std::find(axes.begin(), axes.end(), time_of(x)) != axes.end())
    call.refuse("which reads the whole signal");
  const Dims reduced_axes(axes.begin(), axes.end());
  Signal y =
      program.each(x, [=, f = function->second](const Tensor& block) { return f(block, reduced_axes, keepdim); });
  if (!keepdim) {
    y.axis -= static_cast<std::size_t>(
        std::count_if(axes.begin(), axes.end(), [&](std::int64_t axis) { return axis < time_of(x); }));
  }
  program.define(call, 0, y);
}

void softmax_rule(Program& program, SignalCall& call) {
  const bool is_log = call.find("LogSoftmax") != nullptr;
  const std::int64_t axis = integer_of(call.nodes.back(), "axis", -1);
  const Signal x = program.whole_operand(call, 0);
  if (axis == time_of(x)) call.refuse("which reads the whole signal");
  program.define(call, 0, program.each(x, [=](const Tensor& block) {
    return is_log ? log_softmax(block, axis) : softmax(block, axis);
  }));
}

void linear_rule(Program& program, SignalCall& call) {
  check_filter(call);
  const Signal x = program.whole_operand(call, 0);
  if (x.axis + 1 == x.shape.size()) call.refuse("whose time axis is that of the features; transpose the signal");
  const Tensor weight = call.in[0].dim() == 2 ? call.in[1] : call.in[1].transpose(0, 1), bias = call.in[2];
  program.define(call, 0, program.each(x, [=](const Tensor& block) { return linear(block, weight, bias); }));
}

void matmul_rule(Program& program, SignalCall& call) {
  const bool is_left = program.is_signal(call, 0);
  if (is_left && program.is_signal(call, 1)) call.refuse("of two signals");
  const Signal x = program.whole_operand(call, is_left ? 0 : 1);
  const Tensor other = call.in[is_left ? 1 : 0];
  const std::size_t rank = x.shape.size(), behind = rank - x.axis;  // 1: time is the last axis
  const bool keeps_time = is_left ? behind == 2 : behind == 1 && rank >= 2;
  if (!keeps_time || other.dim() < 2 || call.out[0].shape().size() < 2)
    call.refuse("whose time axis is neither that of the rows nor that of the columns");
  Signal y =
      program.each(x, [=](const Tensor& block) { return is_left ? matmul(block, other) : matmul(other, block); });
  y.axis = call.out[0].shape().size() - behind;
  program.define(call, 0, y);
}

// With running statistics.
void batch_norm_rule(Program& program, SignalCall& call) {
  const double eps = number_of(first_node(call, "BatchNormalization"), "epsilon", 1e-5);
  check_filter(call);
  const Signal x = program.whole_operand(call, 0);
  if (x.axis == 1) call.refuse("whose time axis is that of the channels");
  const Tensor weight = call.in[1], bias = call.in[2], mean = call.in[3], variance = call.in[4];
  program.define(call, 0, program.each(x, [=](const Tensor& block) {
    return batch_norm(block, mean, variance, weight, bias, false, 0.1, eps);
  }));
}

void layer_norm_rule(Program& program, SignalCall& call) {
  const SignalCall::Node& node = first_node(call, "LayerNormalization");
  check_filter(call);
  const double eps = number_of(node, "epsilon", 1e-5);
  const auto last = static_cast<std::size_t>(-integer_of(node, "axis", -1));
  const Signal x = program.whole_operand(call, 0);
  if (x.axis + last >= x.shape.size()) call.refuse("which normalises over time");
  const Shape normalized(x.shape.end() - last, x.shape.end());
  const Tensor weight = call.in[1], bias = call.in[2];
  program.define(call, 0, program.each(x, [=](const Tensor& block) {
    return layer_norm(block, normalized, weight, bias, eps);
  }));
}

// Of instance_norm and group_norm, only the former with running statistics.
void norm_over_time_rule(Program& program, SignalCall& call) {
  if (call.find("BatchNormalization") != nullptr) return batch_norm_rule(program, call);
  call.refuse("which normalises over time");
}

// Nearest neighbours, a whole number of times as many.
void interpolate_rule(Program& program, SignalCall& call) {
  const Signal x = program.whole_operand(call, 0);
  const Shape from = call.in[0].shape(), to = call.out[0].shape();
  const std::int64_t axis = time_of(x), times = to[x.axis] / from[x.axis];
  Shape expected = from;
  expected[x.axis] *= times;
  const SignalCall::Node* const node = call.find("Resize");
  const auto has = [&](std::string_view name, std::string_view wanted) {
    return std::any_of(node->attributes.begin(), node->attributes.end(), [&](const OnnxAttribute& attribute) {
      return attribute.name == name && std::get<std::string>(attribute.value) == wanted;
    });
  };
  const bool is_nearest =
      node != nullptr && has("mode", "nearest") && has("coordinate_transformation_mode", "asymmetric");
  if (!is_nearest || to != expected)
    call.refuse("other than to the nearest neighbour, a whole number of times as many");
  Signal y = program.each(x, [=](const Tensor& block) { return repeat_interleave(block, times, axis); });
  y.up *= times;
  y.delay *= times;
  y.length = program.add_length({x.length, times, 0, 1});
  program.define(call, 0, y);
}

// A recurrent layer continues from the states behind the last step of the signal.
void loop_rule(Program& program, SignalCall& call) {
  if (!call.loop) call.refuse("which reads the signal backwards, or sequences of several lengths");
  const SignalLoop& loop = *call.loop;
  check_filter(call);
  const Signal x = program.whole_operand(call, 0);
  if (x.axis != loop.axis) call.refuse(fmt::format("whose steps are axis {}, but time is axis {}", loop.axis, x.axis));
  if (loop.first.size() > 1 && element_size(x.dtype) == 2) call.refuse("whose state would be rounded after each block");
  std::vector<std::size_t> states;
  for (const Tensor& first : loop.first) states.push_back(program.add_state({first.shape(), first.dtype(), first}));
  const WindowSpec place{.up = x.up, .down = x.down, .delay = x.delay};
  program.define(call, 0, program.of_frame(x, [=, &loop, slot = x.slot](const StreamFrame& frame) {
    std::vector<Tensor> before;
    for (const std::size_t state : states) before.push_back(frame.states[state]);
    const StepKeeper keeper(place, frame.clock);
    const std::vector<Tensor> results = loop.run(frame.values[slot], before);
    for (std::size_t i = 0; i < before.size(); ++i) before[i].copy_(results[1 + i]);
    return results[0];
  }));
}

constexpr std::pair<std::string_view, StreamRule> kRules[] = {
    {"conv", conv_rule},
    {"conv_transpose", conv_transpose_rule},
    {"max_pool", pool_rule},
    {"avg_pool", pool_rule},
    {"pad", pad_rule},
    {"slice", slice_rule},
    {"narrow", slice_rule},
    {"select", slice_rule},
    {"split", split_rule},
    {"chunk", split_rule},
    {"unbind", split_rule},
    {"permute", permute_rule},
    {"reshape", reshape_rule},
    {"expand", expand_rule},
    {"copy_", copy_rule},
    {"to", copy_rule},
    {"clone", copy_rule},
    {"contiguous", copy_rule},
    {"cat", cat_rule},
    {"sum", reduce_rule},
    {"mean", reduce_rule},
    {"prod", reduce_rule},
    {"amax", reduce_rule},
    {"amin", reduce_rule},
    {"logsumexp", reduce_rule},
    {"softmax", softmax_rule},
    {"log_softmax", softmax_rule},
    {"linear", linear_rule},
    {"matmul", matmul_rule},
    {"batch_norm", batch_norm_rule},
    {"instance_norm", norm_over_time_rule},
    {"group_norm", norm_over_time_rule},
    {"layer_norm", layer_norm_rule},
    {"resample", interpolate_rule},
    {"RNN", loop_rule},
    {"LSTM", loop_rule},
    {"GRU", loop_rule},
};

}  // namespace

const SignalCall::Node& first_node(const SignalCall& call, std::string_view type) {
  if (call.nodes.empty() || call.nodes[0].type != type) call.refuse("of an unusual form");
  return call.nodes[0];
}

void check_filter(const SignalCall& call) {
  for (std::size_t i = 1; i < call.in.size(); ++i) {
    if (call.operands[i] >= 0) call.refuse("whose weight or bias depends on the signal");
  }
}

StreamRule stream_rule(const SignalCall& call) {
  const auto* const row =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const auto& rule) { return rule.first == call.name; });
  return row == std::end(kRules) ? nullptr : row->second;
}

}  // namespace adjoint::nn::detail
