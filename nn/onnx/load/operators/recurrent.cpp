// ONNX's recurrent layers, composed of operators, with every activation, clip, peepholes and lengths.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/matmul/linear.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <array>

namespace adjoint::nn::detail {
namespace {

struct GateFunction {
  std::string_view name;
  std::size_t numbers;  // alpha, or alpha and beta
  double alpha, beta;
  Tensor (*run)(const Tensor& x, double alpha, double beta);
};

constexpr GateFunction kGateFunctions[] = {
    {"Affine", 2, 1.0, 0.0, [](const Tensor& x, double a, double b) { return x * a + b; }},
    {"Elu", 1, 1.0, 0.0, [](const Tensor& x, double a, double) { return elu(x, a); }},
    {"HardSigmoid", 2, 0.2, 0.5, [](const Tensor& x, double a, double b) { return clamp(x * a + b, 0.0, 1.0); }},
    {"LeakyRelu", 1, 0.01, 0.0, [](const Tensor& x, double a, double) { return leaky_relu(x, a); }},
    {"Relu", 0, 0.0, 0.0, [](const Tensor& x, double, double) { return relu(x); }},
    {"ScaledTanh", 2, 1.0, 1.0, [](const Tensor& x, double a, double b) { return tanh(x * b) * a; }},
    {"Sigmoid", 0, 0.0, 0.0, [](const Tensor& x, double, double) { return sigmoid(x); }},
    {"Softplus", 0, 0.0, 0.0, [](const Tensor& x, double, double) { return softplus(x); }},
    {"Softsign", 0, 0.0, 0.0, [](const Tensor& x, double, double) { return softsign(x); }},
    {"Tanh", 0, 0.0, 0.0, [](const Tensor& x, double, double) { return tanh(x); }},
    {"ThresholdedRelu", 1, 1.0, 0.0, [](const Tensor& x, double a, double) { return threshold(x, a, 0.0); }},
};

// A gate's function, which gets the clipped input.
struct GateActivation {
  GateFunction function;
  double clip;  // 0: none

  Tensor operator()(const Tensor& x) const {
    return function.run(clip > 0.0 ? clamp(x, -clip, clip) : x, function.alpha, function.beta);
  }
};

// The functions of all directions, one after the other. Functions with parameters consume these in order.
std::vector<GateActivation> gate_activations(const OnnxArgs& x, const std::vector<std::string>& defaults) {
  const std::vector<std::string> names = x.texts("activations", defaults);
  const std::vector<double> alphas = x.numbers("activation_alpha"), betas = x.numbers("activation_beta");
  if (names.size() != defaults.size())
    x.refuse(fmt::format("it must have {} activations; got {}", defaults.size(), fmt::join(names, ", ")));
  std::vector<GateActivation> functions;
  std::size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const auto* const found = std::find_if(std::begin(kGateFunctions), std::end(kGateFunctions),
                                           [&](const auto& f) { return f.name == name; });
    if (found == std::end(kGateFunctions)) x.refuse(fmt::format("its activations must be ONNX's; got {}", name));
    GateFunction function = *found;
    if (function.numbers > 0 && alpha < alphas.size()) function.alpha = alphas[alpha++];
    if (function.numbers > 1 && beta < betas.size()) function.beta = betas[beta++];
    functions.push_back({function, x.number("clip", 0.0)});
  }
  return functions;
}

// One direction of a layer. Gates follow each other along the last axis.
struct RecurrentDirection {
  Tensor weight, recurrent;        // (gates H, I), (gates H, H)
  Tensor input_bias, bias;         // (gates H), of the inputs' and the state's products
  Tensor h, c;                     // (N, H)
  Tensor peepholes;                // (3 H): input, output, forget; undefined without
  const GateActivation* activate;  // of this direction

  Tensor from_h() const { return linear(h, recurrent, bias); }
};

using Step = void (*)(const OnnxArgs& x, RecurrentDirection& d, const Tensor& given);

void rnn_step(const OnnxArgs&, RecurrentDirection& d, const Tensor& given) { d.h = d.activate[0](given + d.from_h()); }

void gru_step(const OnnxArgs& x, RecurrentDirection& d, const Tensor& given) {
  const std::int64_t size = d.h.size(1);
  const bool linear_first = x.integer("linear_before_reset", 0) != 0;
  const std::vector<Tensor> inputs = split(given, {2 * size, size}, 1);
  const std::vector<Tensor> rows = split(d.recurrent, {2 * size, size}), biases = split(d.bias, {2 * size, size});
  const std::vector<Tensor> gates = chunk(d.activate[0](inputs[0] + linear(d.h, rows[0], biases[0])), 2, 1);
  const Tensor& update = gates[0];
  const Tensor& reset = gates[1];
  const Tensor own = linear_first ? reset * linear(d.h, rows[1], biases[1]) : linear(reset * d.h, rows[1], biases[1]);
  d.h = lerp(d.activate[1](inputs[1] + own), d.h, update);
}

void lstm_step(const OnnxArgs& x, RecurrentDirection& d, const Tensor& given) {
  std::vector<Tensor> gates = chunk(given + d.from_h(), 4, 1);  // input, output, forget, cell
  const std::vector<Tensor> peepholes = d.peepholes.defined() ? chunk(d.peepholes, 3) : std::vector<Tensor>(3);
  const auto with_cell = [&](std::size_t gate) {
    return peepholes[gate].defined() ? gates[gate] + peepholes[gate] * d.c : gates[gate];
  };
  const Tensor in = d.activate[0](with_cell(0));
  const Tensor forget = x.integer("input_forget", 0) != 0 ? 1.0 - in : d.activate[0](with_cell(2));
  d.c = forget * d.c + in * d.activate[1](gates[3]);
  // As in ONNX Runtime, the clip leaves the cell alone.
  const GateFunction& h = d.activate[2].function;
  d.h = d.activate[0](with_cell(1)) * h.run(d.c, h.alpha, h.beta);
}

// A layer's operands, with the axes of a sequence in front: X (T, N, I), W (D, gates H, I), R (D, gates H, H).
class RecurrentLayer {
 public:
  RecurrentLayer(const OnnxArgs& x, std::int64_t gates, std::vector<std::string> functions) : x_(x) {
    if (x[0].dim() != 3 || x[1].dim() != 3 || x[2].dim() != 3)
      x.refuse(fmt::format("its input and weights must have three axes; got {}, {} and {}", x[0].shape(), x[1].shape(),
                           x[2].shape()));
    input_ = by_batch() ? x[0].transpose(0, 1) : x[0];
    const std::string direction = x.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      x.refuse(fmt::format("its direction must be forward, reverse or bidirectional; got {}", direction));
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    size_ = x[2].size(2);
    const std::vector<std::string> one = functions;
    if (directions_ == 2) functions.insert(functions.end(), one.begin(), one.end());
    activations_ = gate_activations(x, functions);
    check(gates);
  }

  OnnxResults run(Step step) {
    std::vector<Tensor> sequences, hs, cs;
    for (std::int64_t d = 0; d < directions_; ++d) {
      RecurrentDirection direction = first(d);
      sequences.push_back(sequence(direction, step, reverse_ || d == 1));
      hs.push_back(direction.h);
      cs.push_back(direction.c);
    }
    const Tensor y = stack(sequences, 1);  // (T, D, N, H)
    const auto laid_out = [&](const Tensor& state) { return by_batch() ? state.transpose(0, 1) : state; };
    OnnxResults results{by_batch() ? y.permute({2, 0, 1, 3}) : y, laid_out(stack(hs))};
    if (cs[0].defined()) results.push_back(laid_out(stack(cs)));
    return results;
  }

 private:
  bool by_batch() const { return x_.integer("layout", 0) != 0; }

  void check(std::int64_t gates) const {
    const std::int64_t batch = input_.size(1), rows = gates * size_;
    const Shape state = by_batch() ? Shape{batch, directions_, size_} : Shape{directions_, batch, size_};
    const auto expect = [&](std::size_t i, const Shape& shape) {
      if (x_.has(i) && x_[i].shape() != shape)
        x_.refuse(fmt::format("its input {} must have the shape {}; got {}", i, shape, x_[i].shape()));
    };
    if (x_.integer("hidden_size", size_) != size_ || size_ < 1)
      x_.refuse(fmt::format("its hidden_size must be that of its weights; got {} for {}", x_.integer("hidden_size", 0),
                            x_[2].shape()));
    if (size_ >= std::int64_t{1} << 40) x_.refuse(fmt::format("its weights are too large: {}", x_[2].shape()));
    expect(1, {directions_, rows, input_.size(2)});
    expect(2, {directions_, rows, size_});
    expect(3, {directions_, 2 * rows});
    expect(4, {batch});
    expect(5, state);
    expect(6, state);
    expect(7, {directions_, 3 * size_});
  }

  RecurrentDirection first(std::int64_t d) const {
    const auto part = [&](std::size_t i) { return x_.has(i) ? x_[i].select(0, d) : Tensor(); };
    const auto state = [&](std::size_t i) {
      if (!x_.has(i)) return Tensor::zeros({input_.size(1), size_}, input_.options());
      return x_[i].select(by_batch() ? 1 : 0, d);
    };
    const std::vector<Tensor> biases =
        x_.has(3) ? chunk(part(3), 2) : std::vector<Tensor>(2, Tensor::zeros({x_[2].size(1)}, input_.options()));
    const bool has_cell = x_.node.type == "LSTM";
    return {
        .weight = part(1),
        .recurrent = part(2),
        .input_bias = biases[0],
        .bias = biases[1],
        .h = state(5),
        .c = has_cell ? state(6) : Tensor(),
        .peepholes = has_cell ? part(7) : Tensor(),
        .activate =
            &activations_[static_cast<std::size_t>(d) * activations_.size() / static_cast<std::size_t>(directions_)]};
  }

  // The outputs (T, N, H). Steps behind a sequence's end give 0 and leave its state as it is, so that a reversed
  // direction begins at the end.
  Tensor sequence(RecurrentDirection& d, Step step, bool reverse) const {
    std::vector<Tensor> inputs = unbind(linear(input_, d.weight, d.input_bias));
    const Tensor lengths = x_.has(4) ? x_[4].to(kInt64).unsqueeze(1) : Tensor();
    std::vector<Tensor> outputs(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t t = reverse ? inputs.size() - 1 - i : i;
      const Tensor h = d.h, c = d.c;
      step(x_, d, inputs[t]);
      outputs[t] = d.h;
      if (!lengths.defined()) continue;
      const Tensor runs = lengths > static_cast<std::int64_t>(t);
      outputs[t] = where(runs, d.h, 0.0);
      d.h = where(runs, d.h, h);
      if (c.defined()) d.c = where(runs, d.c, c);
    }
    return stack(outputs);
  }

  const OnnxArgs& x_;
  Tensor input_;
  std::int64_t directions_ = 1, size_ = 0;
  bool reverse_ = false;
  std::vector<GateActivation> activations_;
};

constexpr OnnxOperator kRecurrentOperators[] = {
    {.type = "GRU",
     .run =
         [](const OnnxArgs& x) {
           return RecurrentLayer(x, 3, {"Sigmoid", "Tanh"}).run(gru_step);
         },
     .attributes =
         "activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset"},
    {.type = "LSTM",
     .run =
         [](const OnnxArgs& x) {
           return RecurrentLayer(x, 4, {"Sigmoid", "Tanh", "Tanh"}).run(lstm_step);
         },
     .attributes = "activation_alpha activation_beta activations clip direction hidden_size input_forget layout"},
    {.type = "RNN",
     .run = [](const OnnxArgs& x) { return RecurrentLayer(x, 1, {"Tanh"}).run(rnn_step); },
     .attributes = "activation_alpha activation_beta activations clip direction hidden_size layout"},
};

}  // namespace

std::span<const OnnxOperator> onnx_recurrent_operators() { return kRecurrentOperators; }

}  // namespace adjoint::nn::detail
