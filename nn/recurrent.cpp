#include <adjoint/nn/recurrent.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/recurrence.h>
#include <adjoint/nn/stream_calls.h>
#include <adjoint/nn/stream_window.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace adjoint::nn {
namespace {

using detail::RecurrentKind;
using Lengths = std::vector<std::int64_t>;

// A call's operands are the input, two states, and from kFirstWeight on the layer's parameters.
constexpr std::size_t kFirstWeight = 3, kWeights = 5;

std::array<Parameter RecurrentWeights::*, kWeights> weight_members() {
  return {&RecurrentWeights::weight_ih, &RecurrentWeights::weight_hh, &RecurrentWeights::bias_ih,
          &RecurrentWeights::bias_hh, &RecurrentWeights::weight_hr};
}

// The steps of a batch of sequences of several lengths as rows: the sequences from the longest to the shortest, and of
// each step a row for each of them that has not ended. Without lengths, every sequence has every step.
class PackedRows {
 public:
  PackedRows(std::int64_t steps, std::int64_t batch, bool batch_first, const Lengths& lengths, Device device)
      : steps_(steps), batch_(batch), batch_first_(batch_first) {
    const auto whole = [&](std::int64_t length) { return length == steps; };
    if (std::all_of(lengths.begin(), lengths.end(), whole)) {
      sizes_.assign(static_cast<std::size_t>(steps), batch);
    } else {
      sort(lengths, device);
    }
  }

  /// Of each step.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

  Tensor pack(const Tensor& x) const {
    if (rows_.defined()) return index_select(x.reshape({steps_ * batch_, x.size(-1)}), 0, rows_);
    return (batch_first_ ? x.transpose(0, 1) : x).reshape({steps_ * batch_, x.size(-1)});
  }
  Tensor unpack(const Tensor& rows) const {
    const std::int64_t features = rows.size(-1);
    if (places_.defined()) {
      const Tensor with_padding = cat({rows, Tensor::zeros({1, features}, rows.options())}, 0);
      return index_select(with_padding, 0, places_)
          .reshape(batch_first_ ? Shape{batch_, steps_, features} : Shape{steps_, batch_, features});
    }
    const Tensor y = rows.reshape({steps_, batch_, features});
    return batch_first_ ? y.transpose(0, 1) : y;
  }
  /// (layers, N, H), of which the sequences are put in the rows' order and back.
  Tensor sorted(const Tensor& states) const { return order_.defined() ? index_select(states, 1, order_) : states; }
  Tensor as_given(const Tensor& states) const {
    return order_.defined() ? index_select(states, 1, places_in_order_) : states;
  }

 private:
  void sort(const Lengths& lengths, Device device) {
    Lengths order(lengths.size()), inverse(lengths.size());
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](std::int64_t sequence) { return lengths[static_cast<std::size_t>(sequence)]; };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return length(a) > length(b); });
    Lengths rows;
    for (std::int64_t step = 0; step < length(order[0]); ++step) {
      const std::size_t before = rows.size();
      for (std::size_t i = 0; i < order.size() && length(order[i]) > step; ++i) {
        rows.push_back(batch_first_ ? order[i] * steps_ + step : step * batch_ + order[i]);
      }
      sizes_.push_back(static_cast<std::int64_t>(rows.size() - before));
    }
    Lengths places(static_cast<std::size_t>(steps_ * batch_), static_cast<std::int64_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      places[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
    }
    const auto on_device = [&](const Lengths& indices) {
      return Tensor::from_vector(indices, {static_cast<std::int64_t>(indices.size())}, {.device = device});
    };
    rows_ = on_device(rows);
    places_ = on_device(places);
    if (std::is_sorted(order.begin(), order.end())) return;
    for (std::size_t i = 0; i < order.size(); ++i) {
      inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    order_ = on_device(order);
    places_in_order_ = on_device(inverse);
  }

  std::int64_t steps_, batch_;
  bool batch_first_;
  std::vector<std::int64_t> sizes_;
  Tensor rows_, places_;            // undefined if every sequence has every step
  Tensor order_, places_in_order_;  // undefined if sequences are already sorted
};

template <class F>
LSTMState each(const LSTMState& state, const F& f) {
  return {f(state.h), state.c.defined() ? f(state.c) : Tensor()};
}

// Sequences from `start` on.
LSTMState some(const LSTMState& state, std::int64_t start, std::int64_t count) {
  return each(state, [&](const Tensor& x) { return x.narrow(0, start, count); });
}

// The states of several groups of sequences, one behind the other.
LSTMState joined(const std::vector<LSTMState>& groups) {
  if (groups.size() == 1) return groups[0];
  const auto join = [&](Tensor LSTMState::*which) {
    std::vector<Tensor> all;
    for (const LSTMState& group : groups) all.push_back(group.*which);
    return cat(all, 0);
  };
  return {join(&LSTMState::h), groups[0].c.defined() ? join(&LSTMState::c) : Tensor()};
}

struct Scanned {
  Tensor rows;
  LSTMState last;
};

// From each sequence's first step to its last.
Scanned scan_forward(const detail::Recurrence& recurrence, const std::vector<Tensor>& inputs, LSTMState state) {
  std::vector<Tensor> outputs;
  std::vector<LSTMState> ended;
  const detail::StepKeeper* const keeper = detail::StepKeeper::current();
  for (const Tensor& input : inputs) {
    const std::int64_t going = input.size(0), before = state.h.size(0);
    if (going < before) {
      ended.push_back(some(state, going, before - going));
      state = some(state, 0, going);
    }
    const LSTMState last = std::exchange(state, recurrence.step(input, state));
    if (keeper != nullptr) {
      const auto step = static_cast<std::int64_t>(outputs.size());
      keeper->keep(step, last.h, state.h);
      if (state.c.defined()) keeper->keep(step, last.c, state.c);
    }
    outputs.push_back(state.h);
  }
  ended.push_back(state);
  std::reverse(ended.begin(), ended.end());
  return {cat(outputs, 0), joined(ended)};
}

// From each sequence's last step to its first: shorter ones join when their ends are reached.
Scanned scan_backward(const detail::Recurrence& recurrence, const std::vector<Tensor>& inputs, const LSTMState& first) {
  std::vector<Tensor> outputs(inputs.size());
  LSTMState state = some(first, 0, inputs.back().size(0));
  for (std::size_t step = inputs.size(); step-- > 0;) {
    const std::int64_t going = inputs[step].size(0), before = state.h.size(0);
    if (going > before) state = joined({state, some(first, before, going - before)});
    state = recurrence.step(inputs[step], state);
    outputs[step] = state.h;
  }
  return {cat(outputs, 0), state};
}

std::string description_of(const detail::RecurrentOptions& options, std::int64_t input_size, std::int64_t hidden_size) {
  std::string text = fmt::format("{}, {}", input_size, hidden_size);
  if (options.proj_size > 0) text += fmt::format(", proj_size={}", options.proj_size);
  if (options.num_layers != 1) text += fmt::format(", num_layers={}", options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.dropout > 0.0) text += fmt::format(", dropout={}", options.dropout);
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

}  // namespace

RecurrentNonlinearity enumerator(std::string_view name, RecurrentNonlinearity) {
  constexpr const char* kNames[] = {"tanh", "relu"};
  return static_cast<RecurrentNonlinearity>(place_of("nonlinearity", name, kNames));
}

namespace detail {

Recurrent::Recurrent(const char* type, std::int64_t input_size, std::int64_t hidden_size,
                     const RecurrentOptions& options)
    : Module(type), type_(type), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  ADJOINT_CHECK(input_size >= 1 && hidden_size >= 1 && options.num_layers >= 1,
                "{}: input_size, hidden_size and num_layers must be at least 1; got {}, {}, {}", type, input_size,
                hidden_size, options.num_layers);
  ADJOINT_CHECK(options.dropout >= 0.0 && options.dropout <= 1.0, "{}: dropout must be between 0 and 1; got {}", type,
                options.dropout);
  ADJOINT_CHECK(options.proj_size >= 0 && options.proj_size < hidden_size,
                "{}: proj_size must be below hidden_size and not negative; got {}, hidden_size {}", type,
                options.proj_size, hidden_size);
  const OpScope scope(type);
  set_description(description_of(options, input_size, hidden_size));
  const std::int64_t rows = gates_of(options.kind) * hidden_size, state = output_size();
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t features = layer == 0 ? input_size : state * directions();
    for (const char* direction : {"", "_reverse"}) {
      if (*direction != '\0' && !options.bidirectional) continue;
      const auto make = [&](const char* name, const Shape& shape) {
        return register_parameter(fmt::format("{}_l{}{}", name, layer, direction),
                                  recurrent_parameter(shape, hidden_size));
      };
      RecurrentWeights weights{make("weight_ih", {rows, features}), make("weight_hh", {rows, state}), {}, {}};
      if (options.bias) {
        weights.bias_ih = make("bias_ih", {rows});
        weights.bias_hh = make("bias_hh", {rows});
      }
      if (options.proj_size > 0) weights.weight_hr = make("weight_hr", {state, hidden_size});
      weights_->push_back(std::move(weights));
    }
  }
}

RecurrentWeights Recurrent::weights(std::int64_t layer, bool reverse) const {
  check_not_moved_from(type_);
  ADJOINT_CHECK(layer >= 0 && layer < options_.num_layers && (!reverse || options_.bidirectional),
                "{}: weights must be those of one of {} layers and {} directions; got layer {}{}", type_,
                options_.num_layers, directions(), layer, reverse ? ", reverse" : "");
  return (*weights_)[static_cast<std::size_t>(layer * directions() + (reverse ? 1 : 0))];
}

LSTMResult Recurrent::run(const Tensor& input, const LSTMInput& given) const {
  LSTMResult result;
  result.output = hooked(input, [&](const Tensor& x) {
    result = forward(x, given);
    return result.output;
  });
  return result;
}

LSTMResult Recurrent::forward(const Tensor& input, const LSTMInput& given) const {
  const OpScope scope(type_);
  check_not_moved_from(type_);
  check_defined(type_, "input", input);
  std::vector<Tensor> operands{input, given.h_0, given.c_0};
  for (const RecurrentWeights& weights : *weights_) {
    for (const auto member : weight_members()) operands.push_back(weights.*member);
  }
  if (const adjoint::detail::AutocastCall low(MixedPrecision::kLow, std::span<const Tensor>(operands)); low) {
    return computed({low.operands().begin(), low.operands().end()}, given.lengths);
  }
  return computed(std::move(operands), given.lengths);
}

void Recurrent::check(const std::vector<Tensor>& operands, const std::vector<std::int64_t>& lengths) const {
  const Tensor& x = operands[0];
  const Tensor& weight = operands[kFirstWeight];
  ADJOINT_CHECK((x.dim() == 2 || x.dim() == 3) && x.size(-1) == input_size_,
                "{}: input must be ({}, {}), or (L, {}) without a batch; got {}", type_,
                options_.batch_first ? "N, L" : "L, N", input_size_, input_size_, x.shape());
  ADJOINT_CHECK(
      x.dtype() == weight.dtype() && x.device() == weight.device(),
      "{}: input must have the weights' dtype and device; got {} on {}, weights {} on {}; convert or move one "
      "with to()",
      type_, x.dtype(), x.device(), weight.dtype(), weight.device());
  const bool batched = x.dim() == 3, batch_first = batched && options_.batch_first;
  const std::int64_t steps = x.size(batch_first ? 1 : 0), batch = batched ? x.size(batch_first ? 0 : 1) : 1;
  ADJOINT_CHECK(steps >= 1, "{}: sequences must have a step at least; got input {}", type_, x.shape());
  const std::int64_t features[] = {output_size(), hidden_size_};
  constexpr const char* kNames[] = {"h_0", "c_0"};
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& state = operands[1 + i];
    if (!state.defined()) continue;
    const std::int64_t layers = directions() * options_.num_layers;
    const Shape expected = batched ? Shape{layers, batch, features[i]} : Shape{layers, features[i]};
    ADJOINT_CHECK(state.shape() == expected && state.dtype() == x.dtype() && state.device() == x.device(),
                  "{}: {} must be {} {} on {}, for {} layers of {} and input {}; got {} {} on {}", type_, kNames[i],
                  x.dtype(), expected, x.device(), options_.num_layers,
                  options_.bidirectional ? "two directions" : "one direction", x.shape(), state.dtype(), state.shape(),
                  state.device());
  }
  ADJOINT_CHECK(options_.kind != RecurrentKind::kLSTM || operands[1].defined() == operands[2].defined(),
                "{}: h_0 and c_0 must be given together; got {} alone", type_, operands[1].defined() ? "h_0" : "c_0");
  if (lengths.empty()) return;
  ADJOINT_CHECK(batched && static_cast<std::int64_t>(lengths.size()) == batch,
                "{}: lengths must be one for each sequence of a batch; got {} for input {}", type_, lengths.size(),
                x.shape());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ADJOINT_CHECK(lengths[i] >= 1 && lengths[i] <= steps,
                  "{}: lengths must lie between 1 and the number of steps, {}; got {} in place {} for input {}", type_,
                  steps, lengths[i], i, x.shape());
  }
}

// operands: the input, both states and every direction's weights, of one dtype.
LSTMResult Recurrent::computed(std::vector<Tensor> operands, const std::vector<std::int64_t>& lengths) const {
  check(operands, lengths);
  const bool batched = operands[0].dim() == 3, batch_first = batched && options_.batch_first;
  if (records_signal()) {
    LSTMResult result;
    {
      const adjoint::detail::TraceScope unseen(nullptr);
      result = computed(operands, lengths);
    }
    std::optional<SignalLoop> loop;
    if (!options_.bidirectional && lengths.empty()) {
      loop.emplace();
      loop->axis = batch_first ? 1 : 0;
      for (const Tensor& last : {result.h_n, result.c_n}) {
        const Tensor& given = operands[1 + loop->first.size()];
        if (last.defined())
          loop->first.push_back(given.defined() ? given : Tensor::zeros(last.shape(), last.options()));
      }
      loop->run = [layer = *this, operands](const Tensor& block, const std::vector<Tensor>& states) {
        std::vector<Tensor> all = operands;
        all[0] = block;
        std::copy(states.begin(), states.end(), all.begin() + 1);
        const LSTMResult made = layer.computed(std::move(all), {});
        return states.size() == 1 ? std::vector{made.output, made.h_n} : std::vector{made.output, made.h_n, made.c_n};
      };
    }
    record_loop(type_, operands, {result.output, result.h_n, result.c_n}, std::move(loop));
    return result;
  }
  const Tensor x = batched ? operands[0] : operands[0].unsqueeze(1);
  const std::int64_t batch = x.size(batch_first ? 0 : 1);
  const PackedRows packed(x.size(batch_first ? 1 : 0), batch, batch_first, lengths, x.device());
  const std::int64_t runs = directions() * options_.num_layers;
  const auto first = [&](const Tensor& state, std::int64_t features) {
    if (!state.defined()) return unbind(Tensor::zeros({runs, batch, features}, x.options()), 0);
    return unbind(packed.sorted(batched ? state : state.unsqueeze(1)), 0);
  };
  const std::vector<Tensor> h_0 = first(operands[1], output_size()), c_0 = first(operands[2], hidden_size_);

  Tensor rows = packed.pack(x);
  std::vector<Tensor> h_n, c_n;
  for (std::int64_t layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const auto at = static_cast<std::size_t>(layer * directions() + direction);
      const Tensor* const w = &operands[kFirstWeight + kWeights * at];
      const Recurrence recurrence(options_.kind, {w[0], w[1], w[2], w[3], w[4]});
      const std::vector<Tensor> inputs = split(recurrence.from_inputs(rows), packed.sizes(), 0);
      const LSTMState state = first_state(options_.kind, h_0[at], c_0[at]);
      const Scanned scanned =
          direction == 0 ? scan_forward(recurrence, inputs, state) : scan_backward(recurrence, inputs, state);
      outputs.push_back(scanned.rows);
      h_n.push_back(scanned.last.h);
      if (scanned.last.c.defined()) c_n.push_back(scanned.last.c.to(x.dtype()));
    }
    rows = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    const bool drops = training() && options_.dropout > 0.0 && layer + 1 < options_.num_layers;
    if (drops) rows = Dropout(options_.dropout)(rows);
  }
  const auto last = [&](const std::vector<Tensor>& states) {
    const Tensor all = packed.as_given(stack(states, 0));
    return batched ? all : all.squeeze(1);
  };
  const Tensor y = packed.unpack(rows);
  return {batched ? y : y.squeeze(1), last(h_n), c_n.empty() ? Tensor() : last(c_n)};
}

}  // namespace detail

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : Recurrent("RNN", input_size, hidden_size,
                {detail::kind_of(options.nonlinearity, "RNN"), options.num_layers, options.bias, options.batch_first,
                 options.dropout, options.bidirectional}) {}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options)
    : Recurrent("LSTM", input_size, hidden_size,
                {RecurrentKind::kLSTM, options.num_layers, options.bias, options.batch_first, options.dropout,
                 options.bidirectional, options.proj_size}) {}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options)
    : Recurrent("GRU", input_size, hidden_size,
                {RecurrentKind::kGRU, options.num_layers, options.bias, options.batch_first, options.dropout,
                 options.bidirectional}) {}

RNNResult RNN::operator()(const Tensor& input, const RNNInput& given) const {
  const LSTMResult result = run(input, {given.h_0, {}, given.lengths});
  return {result.output, result.h_n};
}

LSTMResult LSTM::operator()(const Tensor& input, const LSTMInput& given) const { return run(input, given); }

RNNResult GRU::operator()(const Tensor& input, const RNNInput& given) const {
  const LSTMResult result = run(input, {given.h_0, {}, given.lengths});
  return {result.output, result.h_n};
}

}  // namespace adjoint::nn
