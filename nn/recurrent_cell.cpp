// The cells of recurrent layers: one step.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/recurrence.h>

#include <string>
#include <utility>

namespace adjoint::nn {
namespace detail {

RecurrentCell::RecurrentCell(const char* type, RecurrentKind kind, std::int64_t input_size, std::int64_t hidden_size,
                             bool bias)
    : Module(type), type_(type), kind_(kind), input_size_(input_size), hidden_size_(hidden_size) {
  ADJOINT_CHECK(input_size >= 1 && hidden_size >= 1, "{}: input_size and hidden_size must be at least 1; got {}, {}",
                type, input_size, hidden_size);
  const OpScope scope(type);
  std::string description = fmt::format("{}, {}", input_size, hidden_size);
  if (!bias) description += ", bias=False";
  if (kind == RecurrentKind::kReLU) description += ", nonlinearity=relu";
  set_description(std::move(description));
  const std::int64_t rows = gates_of(kind) * hidden_size;
  const auto make = [&](const Shape& shape) { return recurrent_parameter(shape, hidden_size); };
  weight_ih = register_parameter("weight_ih", make({rows, input_size}));
  weight_hh = register_parameter("weight_hh", make({rows, hidden_size}));
  bias_ih = register_parameter("bias_ih", bias ? make({rows}) : Tensor(), {.optional = true});
  bias_hh = register_parameter("bias_hh", bias ? make({rows}) : Tensor(), {.optional = true});
}

LSTMState RecurrentCell::step(const Tensor& input, const LSTMState& state) const {
  LSTMState after;
  after.h = hooked(input, [&](const Tensor& x) {
    after = forward(x, state);
    return after.h;
  });
  return after;
}

LSTMState RecurrentCell::forward(const Tensor& input, const LSTMState& state) const {
  const OpScope scope(type_);
  check_not_moved_from(type_);
  check_defined(type_, "input", input);
  const Tensor weights[] = {weight_ih, weight_hh, bias_ih, bias_hh};
  const Tensor operands[] = {input, state.h, state.c, weights[0], weights[1], weights[2], weights[3]};
  const auto computed = [&](std::span<const Tensor> in) -> LSTMState {
    const Tensor &x = in[0], &weight = in[3];
    ADJOINT_CHECK((x.dim() == 1 || x.dim() == 2) && x.size(-1) == input_size_,
                  "{}: input must be (N, {}), or ({},) without a batch; got {}", type_, input_size_, input_size_,
                  x.shape());
    ADJOINT_CHECK(x.dtype() == weight.dtype() && x.device() == weight.device(),
                  "{}: input must have the weights' dtype and device; got {} on {}, weights {} on {}; convert or move "
                  "one with to()",
                  type_, x.dtype(), x.device(), weight.dtype(), weight.device());
    ADJOINT_CHECK(kind_ != RecurrentKind::kLSTM || in[1].defined() == in[2].defined(),
                  "{}: h and c must be given together; got {} alone", type_, in[1].defined() ? "h" : "c");
    Shape shape = x.shape();
    shape[shape.size() - 1] = hidden_size_;
    const std::int64_t batch = x.dim() == 2 ? x.size(0) : 1;
    const auto rows = [&](const char* name, const Tensor& given) {
      if (!given.defined()) return Tensor::zeros({batch, hidden_size_}, x.options());
      ADJOINT_CHECK(given.shape() == shape && given.dtype() == x.dtype() && given.device() == x.device(),
                    "{}: {} must be {} {} on {} for input {}; got {} {} on {}", type_, name, x.dtype(), shape,
                    x.device(), x.shape(), given.dtype(), given.shape(), given.device());
      return given.reshape({batch, hidden_size_});
    };
    const Tensor h = rows("h", in[1]), c = kind_ == RecurrentKind::kLSTM ? rows("c", in[2]) : Tensor();
    const Recurrence recurrence(kind_, {in[3], in[4], in[5], in[6], {}});
    const LSTMState after =
        recurrence.step(recurrence.from_inputs(x.reshape({batch, input_size_})), first_state(kind_, h, c));
    return {after.h.reshape(shape), after.c.defined() ? after.c.to(x.dtype()).reshape(shape) : Tensor()};
  };
  if (const adjoint::detail::AutocastCall low(MixedPrecision::kLow, operands); low) return computed(low.operands());
  return computed(operands);
}

}  // namespace detail

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : RecurrentCell("RNNCell", detail::kind_of(options.nonlinearity, "RNNCell"), input_size, hidden_size,
                    options.bias) {}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const LSTMCellOptions& options)
    : RecurrentCell("LSTMCell", detail::RecurrentKind::kLSTM, input_size, hidden_size, options.bias) {}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const GRUCellOptions& options)
    : RecurrentCell("GRUCell", detail::RecurrentKind::kGRU, input_size, hidden_size, options.bias) {}

}  // namespace adjoint::nn
