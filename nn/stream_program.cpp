#include <adjoint/nn/stream_program.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/ops/reduce/close.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

namespace adjoint::nn::detail {
namespace {

using adjoint::detail::CallTrace;
using adjoint::detail::OperatorCall;
using adjoint::detail::PlannedCall;
using adjoint::detail::TraceScope;

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return -floor_of(-a, b); }

// The nodes of functions that compute each element from the elements at its place.
// clang-format off
constexpr std::string_view kPointwise[] = {
    "Abs", "Acos", "Add", "And", "Asin", "Atan", "Cast", "Ceil", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf",
    "Exp", "Floor", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsNaN", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu",
    "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh", "Where",
    "Xor"};
// clang-format on

bool is_pointwise(const SignalCall& call) {
  const auto is_known = [](const SignalCall::Node& node) {
    return std::find(std::begin(kPointwise), std::end(kPointwise), node.type) != std::end(kPointwise);
  };
  return call.planned != nullptr && std::all_of(call.nodes.begin(), call.nodes.end(), is_known);
}

// A recorded call on other operands, as traces see it.
class RepeatedCall final : public OperatorCall {
 public:
  RepeatedCall(std::unique_ptr<PlannedCall>& call, std::span<const Tensor> operands, const Tensor& result)
      : OperatorCall(call->name, operands, {&result, 1}, false), call_(call) {}
  bool has_rule() const override { return false; }
  const char* reason() const override { return nullptr; }
  OnnxValue translate(OnnxCall&) const override { fail("{}: a repeated call is not translated", name); }
  std::unique_ptr<PlannedCall> planned() const override { return std::move(call_); }

 private:
  std::unique_ptr<PlannedCall>& call_;
};

// A constant for blocks of `samples`: it must not change along `axis`.
Tensor for_block(const SignalCall& call, const Tensor& constant, std::size_t rank, std::size_t axis,
                 std::int64_t samples) {
  if (!constant.defined() || constant.shape().size() != rank || constant.shape()[axis] == 1) return constant;
  const Tensor one = constant.narrow(static_cast<std::int64_t>(axis), 0, 1);
  if (constant.strides()[axis] != 0 && !equal(constant, one.expand(constant.shape())))
    call.refuse("with a constant that changes along time");
  Shape shape = constant.shape();
  shape[axis] = samples;
  return one.expand(shape);
}

// Without the samples that were cut: padding does not bring them back.
Around inner_of(const Around& around) {
  return {std::max<std::int64_t>(around.first, 0), std::max<std::int64_t>(around.cut, 0), around.value};
}

std::array<std::byte, 8> bytes_of_value(double value, DType dtype) {
  std::array<std::byte, 8> bytes{};
  const Tensor one = Tensor::full({1}, value, {.dtype = kFloat64}).to(dtype);
  std::memcpy(bytes.data(), one.raw_data(), element_size(dtype));
  return bytes;
}

}  // namespace

StreamProgram::StreamProgram(SignalCalls calls, const Tensor& input, std::int64_t block)
    : block_(block), calls_(std::move(calls)), values_(static_cast<std::size_t>(calls_.values)) {
  lengths_.push_back({});
  recorded_.push_back(input.size(-1));
  values_[0] = Signal{.shape = input.shape(), .axis = input.shape().size() - 1, .dtype = input.dtype()};
  for (SignalCall& call : calls_.calls) translate(call);
  const std::optional<Signal>& last = values_[static_cast<std::size_t>(calls_.output)];
  ADJOINT_CHECK(last, "Streaming: the output must be a signal; got the last state of a recurrence");
  Signal y = whole(*last);
  ADJOINT_CHECK(y.axis + 1 == y.shape.size(),
                "Streaming: time must be the output's last axis; got axis {} of {}; transpose the output", y.axis,
                y.shape);
  if (y.delay < 0) y = at_delay(y, 0);
  output_ = each(y, [](const Tensor& x) { return x.contiguous(); });
}

void StreamProgram::translate(SignalCall& call) {
  summary_.emplace_back();
  if (const StreamRule rule = stream_rule(call)) return rule(*this, call);
  if (!is_pointwise(call)) call.refuse("which has no rule");
  repeat(call);
}

void StreamProgram::repeat(SignalCall& call) {
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (is_signal(call, i) && call.in[i].shape() != call.out[0].shape())
      call.refuse(fmt::format("with operands of the shapes {} and {}", call.in[i].shape(), call.out[0].shape()));
  }
  const Joined all = joined(call);
  for (const Tensor& number : call.made) {
    if (number.defined() && number.numel() == 1)
      summary_.back() += fmt::format("{} ", number.to(kFloat64).item<double>());
  }
  Signal y = all.signals[0];
  y.shape = call.out[0].shape();
  const Shape shape = block_shape(y);
  const DType dtype = call.out[0].dtype();
  define(call, 0, of_frame(y, [&call, all, shape, dtype](const StreamFrame& frame) {
           const std::vector<Tensor> operands = all.operands(frame);
           Tensor result;
           {
             const TraceScope paused(nullptr);
             result = Tensor::empty(shape, {.dtype = dtype});
             call.planned->in = operands;
             call.planned->out = {result};
             call.planned->run();
           }
           CallTrace::current()->called(RepeatedCall(call.planned, operands, result));
           return result;
         }));
}

const Signal& StreamProgram::operand(const SignalCall& call, std::size_t i) const {
  if (!is_signal(call, i)) call.refuse(fmt::format("whose operand {} is a constant", i));
  const std::optional<Signal>& value = values_[static_cast<std::size_t>(call.operands[i])];
  if (!value) call.refuse("of the last state of a recurrence");
  return *value;
}

Signal StreamProgram::whole_operand(const SignalCall& call, std::size_t i) { return whole(operand(call, i)); }

StreamProgram::Joined StreamProgram::joined(const SignalCall& call) {
  std::vector<Signal> signals;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (is_signal(call, i)) signals.push_back(whole_operand(call, i));
  }
  const Signal first = signals[0];
  std::int64_t delay = first.delay;
  for (const Signal& x : signals) {
    if (x.axis != first.axis || x.shape.size() != first.shape.size())
      call.refuse("whose operands differ in their time axis");
    if (x.up != first.up || x.down != first.down)
      call.refuse(fmt::format("whose operands have {}/{} and {}/{} samples for each of the input", first.up, first.down,
                              x.up, x.down));
    if (x.length != first.length) meetings_.push_back({&call, first.length, x.length});
    delay = std::max(delay, x.delay);
  }
  for (Signal& x : signals) x = at_delay(x, delay);
  // Per operand: a slot, or a constant.
  std::vector<std::pair<std::optional<std::size_t>, Tensor>> sources;
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (is_signal(call, i)) {
      sources.emplace_back(signals[next++].slot, Tensor());
    } else {
      sources.emplace_back(std::nullopt, for_block(call, call.in[i], first.shape.size(), first.axis, samples(first)));
    }
  }
  return {signals, [sources](const StreamFrame& frame) {
            std::vector<Tensor> operands;
            for (const auto& [slot, constant] : sources) operands.push_back(slot ? frame.values[*slot] : constant);
            return operands;
          }};
}

Signal StreamProgram::local(const Signal& signal, const Reach& reach, double padding, const Compute& f) {
  const bool pads = reach.before > 0 || reach.after > 0;
  Signal x = signal.around && pads && signal.around->value != padding ? whole(signal) : signal;
  if (pads) x.around = inner_of(x.around.value_or(Around{.value = padding}));
  x = settled(x);
  Signal y = x;
  y.around.reset();
  y.delay = ceil_of(x.delay + reach.span - reach.before - reach.stride, reach.stride);
  y.down = x.down * reach.stride;
  y.length = add_length({x.length, 1, reach.before + reach.after - reach.span + reach.stride, reach.stride});
  const std::int64_t history = y.delay * reach.stride + reach.before - x.delay;
  const std::int64_t kept = std::max<std::int64_t>(history, 0), start = kept - history;
  const Signal source = kept > 0 || x.around ? window(x, kept) : x;
  const auto axis = static_cast<std::int64_t>(x.axis);
  // Planned calls of packed operands allocate nothing.
  return of_frame(y, [f, axis, start, slot = source.slot](const StreamFrame& frame) {
    const Tensor& all = frame.values[slot];
    return f((start == 0 ? all : all.narrow(axis, start, all.size(axis) - start)).contiguous());
  });
}

Signal StreamProgram::with_history(const Signal& signal, std::int64_t history, const Compute& f) {
  Signal x = signal.around && signal.around->value != 0.0 ? whole(signal) : signal;
  x.around = inner_of(x.around.value_or(Around{}));
  return each(window(settled(x), history), f);
}

Signal StreamProgram::each(const Signal& x, const Compute& f) {
  return of_frame(x, [f, slot = x.slot](const StreamFrame& frame) { return f(frame.values[slot]); });
}

Signal StreamProgram::of_frame(const Signal& x, std::function<Tensor(const StreamFrame&)> f) {
  Signal y = x;
  y.slot = slots_++;
  steps_.push_back({y.slot, std::move(f)});
  return y;
}

std::size_t StreamProgram::add_length(const LengthRule& rule) {
  lengths_.push_back(rule);
  recorded_.push_back(floor_of(recorded_[rule.from] * rule.scale + rule.add, rule.divisor));
  return lengths_.size() - 1;
}

std::size_t StreamProgram::add_state(ProgramState state) {
  states_.push_back(std::move(state));
  return states_.size() - 1;
}

void StreamProgram::define(const SignalCall& call, std::size_t r, Signal x) {
  x.shape = call.out[r].shape();
  x.dtype = call.out[r].dtype();
  const std::int64_t common = std::gcd(x.up, x.down);
  x.up /= common;
  x.down /= common;
  if (x.shape[x.axis] != recorded_[x.length])
    call.refuse(
        fmt::format("whose result has {} samples, where {} were expected", x.shape[x.axis], recorded_[x.length]));
  multiple_ = std::lcm(multiple_, x.down);
  before_ = std::max(before_, ceil_of(-x.delay * x.down, block_ * x.up));
  const LengthRule& rule = lengths_[x.length];
  Shape shape = x.shape;
  shape[x.axis] = 0;
  const Around around = x.around.value_or(Around{});
  summary_.back() += fmt::format("{} {} {}/{} {} {} {} {} {} {} {} {}; ", x.axis, shape, x.up, x.down, x.delay,
                                 x.length, rule.scale, rule.add, rule.divisor, around.first, around.cut, around.value);
  values_[static_cast<std::size_t>(call.results[r])] = std::move(x);
}

Signal StreamProgram::window(const Signal& x, std::int64_t history) {
  WindowSpec spec{.axis = x.axis, .history = history, .up = x.up, .down = x.down, .delay = x.delay, .length = x.length};
  // Without padding no result reads the samples outside.
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  spec.first = x.around ? x.around->first : -kFar;
  spec.cut = x.around ? x.around->cut : -kFar;
  if (x.around) spec.fill = bytes_of_value(x.around->value, x.dtype);
  Signal y = x;
  y.around.reset();
  const auto same = [&](const Window& w) {
    return w.from == x.slot && w.spec.history == history && w.spec.delay == x.delay && w.spec.first == spec.first &&
           w.spec.cut == spec.cut && w.spec.length == x.length && w.spec.fill == spec.fill;
  };
  const auto found = std::find_if(windows_.begin(), windows_.end(), same);
  if (found != windows_.end()) {
    y.slot = found->slot;
    return y;
  }
  Shape shape = block_shape(x);
  shape[x.axis] += history;
  const bool is_zero = !x.around || x.around->value == 0.0;
  const std::size_t state =
      add_state({shape, x.dtype, is_zero ? Tensor() : Tensor::full(shape, x.around->value, {.dtype = x.dtype})});
  y = of_frame(y, [state, spec, from = x.slot](const StreamFrame& frame) {
    pass_window(frame.values[from], frame.states[state], spec, frame.clock);
    return frame.states[state];
  });
  windows_.push_back({y.slot, x.slot, spec});
  return y;
}

Signal StreamProgram::whole(const Signal& x) { return x.around ? window(settled(x), 0) : x; }

Signal StreamProgram::settled(const Signal& x) {
  if (!x.around) return x;
  const std::int64_t longer = recorded_[x.length] - recorded_[0] * x.up / x.down;
  return at_delay(x, std::max(x.delay, x.around->cut - longer));
}

Signal StreamProgram::at_delay(const Signal& x, std::int64_t delay) {
  if (x.delay == delay) return x;
  const auto axis = static_cast<std::int64_t>(x.axis);
  Signal all = x;
  all.around.reset();
  Signal y = each(window(all, delay - x.delay),
                  [axis, extent = samples(x)](const Tensor& read) { return read.narrow(axis, 0, extent); });
  y.delay = delay;
  y.around = x.around;
  return y;
}

Shape StreamProgram::block_shape(const Signal& x) const {
  Shape shape = x.shape;
  shape[x.axis] = samples(x);
  return shape;
}

std::vector<std::int64_t> StreamProgram::lengths(std::int64_t length) const {
  std::vector<std::int64_t> all{length};
  for (std::size_t i = 1; i < lengths_.size(); ++i) {
    const auto& [from, scale, add, divisor] = lengths_[i];
    all.push_back(all[from] == 0 ? 0 : std::max<std::int64_t>(0, floor_of(all[from] * scale + add, divisor)));
  }
  for (const Meeting& meeting : meetings_) {
    ADJOINT_CHECK(all[meeting.a] == all[meeting.b],
                  "Streaming: a signal must have a length that the network accepts; got {} samples, for which the "
                  "operands of {} have {} and {}; end it with zeros",
                  length, meeting.call->name, all[meeting.a], all[meeting.b]);
  }
  return all;
}

void StreamProgram::check_same(const StreamProgram& other) const {
  const auto& mine = calls_.calls;
  const auto& theirs = other.calls_.calls;
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const bool has_both = i < std::min(mine.size(), theirs.size());
    if (has_both && mine[i].name == theirs[i].name && summary_[i] == other.summary_[i]) continue;
    (i < mine.size() ? mine : theirs)[i].refuse("which depends on the length of the signal");
  }
}

Tensor StreamProgram::run(const Tensor& block, std::span<const Tensor> states,
                          const std::shared_ptr<const StreamClock>& clock) {
  const PauseAutocast as_recorded;
  StreamFrame frame{std::vector<Tensor>(slots_), states, clock};
  frame.values[0] = block;
  for (const Step& step : steps_) frame.values[step.slot] = step.compute(frame);
  for (const std::optional<Signal>& value : values_) {
    ADJOINT_ASSERT(!value || frame.values[value->slot].shape() == block_shape(*value),
                   "Streaming: a block must be {}; got {}", block_shape(*value), frame.values[value->slot].shape());
  }
  steps_.clear();
  for (SignalCall& call : calls_.calls) call.in = call.out = call.made = {}, call.loop.reset();
  return frame.values[output_.slot];
}

}  // namespace adjoint::nn::detail
