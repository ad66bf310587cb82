// relu, leaky_relu, prelu, sigmoid, tanh, silu, softplus; and those that an Activation names.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/core/check.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/elementwise/define.h>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::unary;

using Context = Ctx<NoAttr>;
using ScalarContext = Ctx<ScalarAttr>;
using Rule = Vjp<NoAttr>;
using ScalarRule = Vjp<ScalarAttr>;

constinit const OpDef<NoAttr> relu_grad_op =
    define<ReluGrad>(Rule{kSaveIn1, [](const Context& c) { return binary(relu_grad_op, c.grad, c.in[1]); }});
constinit const auto relu_op =
    define<Relu>(Rule{kSaveOut, [](const Context& c) { return binary(relu_grad_op, c.grad, c.out); }});

constinit const OpDef<ScalarAttr> leaky_relu_grad_op =
    define<LeakyReluGrad>(ScalarRule{kSaveIn1, [](const ScalarContext& c) {
                                       return apply(leaky_relu_grad_op, {c.grad, c.in[1]}, c.attr);
                                     }});
constinit const auto leaky_relu_op =
    define<LeakyRelu>(ScalarRule{kSaveIn0, [](const ScalarContext& c) {
                                   return apply(leaky_relu_grad_op, {c.grad, c.in[0]}, c.attr);
                                 }});

constinit const OpDef<NoAttr> prelu_gate_op =
    define<PreluGate>(Rule{kSaveIn1, [](const Context& c) { return binary(prelu_gate_op, c.grad, c.in[1]); }});
// What prelu multiplies by its weight, times g. Both factors pass the gate: neither meets an infinity of the other
// where x is positive, in any order.
Tensor prelu_weight_gradient(const Tensor& grad, const Tensor& g, const Tensor& x) {
  return binary(prelu_gate_op, grad, x) * binary(prelu_gate_op, g, x);
}
// (g, x, weight)
constinit const OpDef<NoAttr> prelu_grad_op =
    define<PreluGrad>(Rule{kSaveIn1 | kSaveIn2,
                           [](const Context& c) {
                             return apply(prelu_grad_op, {c.grad, c.in[1], c.in[2]});
                           }},
                      Rule{}, Rule{kSaveIn0 | kSaveIn1, [](const Context& c) {
                                     return prelu_weight_gradient(c.grad, c.in[0], c.in[1]);
                                   }});
constinit const auto prelu_op =
    define<Prelu>(Rule{kSaveIn0 | kSaveIn1,
                       [](const Context& c) {
                         return apply(prelu_grad_op, {c.grad, c.in[0], c.in[1]});
                       }},
                  Rule{kSaveIn0, [](const Context& c) { return prelu_weight_gradient(c.grad, c.in[0], c.in[0]); }});

// The derivatives y(1 - y) and 1 - y^2 of sigmoid and tanh are written in their results.
constinit const OpDef<NoAttr> sigmoid_grad_op =
    define<SigmoidGrad>(Rule{kSaveIn1, [](const Context& c) { return binary(sigmoid_grad_op, c.grad, c.in[1]); }},
                        Rule{kSaveIn0 | kSaveIn1,
                             [](const Context& c) { return c.grad * c.in[0] * (1.0 - c.in[1] * 2.0); }});
constinit const auto sigmoid_op =
    define<Sigmoid>(Rule{kSaveOut, [](const Context& c) { return binary(sigmoid_grad_op, c.grad, c.out); }});

constinit const OpDef<NoAttr> tanh_grad_op =
    define<TanhGrad>(Rule{kSaveIn1, [](const Context& c) { return binary(tanh_grad_op, c.grad, c.in[1]); }},
                     Rule{kSaveIn0 | kSaveIn1, [](const Context& c) { return c.grad * c.in[0] * c.in[1] * -2.0; }});
constinit const auto tanh_op =
    define<Tanh>(Rule{kSaveOut, [](const Context& c) { return binary(tanh_grad_op, c.grad, c.out); }});

// silu' = s (1 + x (1 - s)) and silu'' = s (1 - s) (2 + x (1 - 2 s)), with s = sigmoid(x).
Tensor silu_second_derivative(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1.0 - s) * (x * (1.0 - s * 2.0) + 2.0);
}
constinit const OpDef<NoAttr> silu_grad_op =
    define<SiluGrad>(Rule{kSaveIn1, [](const Context& c) { return binary(silu_grad_op, c.grad, c.in[1]); }},
                     Rule{kSaveIn0 | kSaveIn1,
                          [](const Context& c) { return c.grad * c.in[0] * silu_second_derivative(c.in[1]); }});
constinit const auto silu_op =
    define<Silu>(Rule{kSaveIn0, [](const Context& c) { return binary(silu_grad_op, c.grad, c.in[0]); }});

constinit const auto softplus_op =
    define<Softplus>(Rule{kSaveIn0, [](const Context& c) { return c.grad * sigmoid(c.in[0]); }});

template <template <class> class F>
void map_in_place(Tensor& x, const elementwise::AttrOf<F>& attr) {
  const auto map = x.device().is_cpu() ? cpu::map<F> : ADJOINT_IF_CUDA(cuda::map<F>);
  map(Operands(&x, 1), x, attr);
}

}  // namespace

Tensor relu(const Tensor& x) { return unary(relu_op, x); }
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return unary(leaky_relu_op, x, ScalarAttr{negative_slope});
}
Tensor sigmoid(const Tensor& x) { return unary(sigmoid_op, x); }
Tensor tanh(const Tensor& x) { return unary(tanh_op, x); }
Tensor silu(const Tensor& x) { return unary(silu_op, x); }
Tensor softplus(const Tensor& x) { return unary(softplus_op, x); }

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const OpScope scope("prelu");
  check_defined("prelu", "x", x);
  check_defined("prelu", "weight", weight);
  const std::int64_t channels = x.dim() < 2 ? 1 : x.shape()[1];
  ADJOINT_CHECK(weight.dim() == 1 && (weight.numel() == 1 || weight.numel() == channels),
                "prelu: weight must have one element, or one for each element of x's axis 1; got x {}, weight {}",
                x.shape(), weight.shape());
  if (weight.numel() == 1 || x.dim() < 2) return binary(prelu_op, x, weight.reshape(Dims::filled(x.shape().size(), 1)));
  Shape per_channel = Dims::filled(x.shape().size(), 1);
  per_channel[1] = channels;
  return binary(prelu_op, x, weight.reshape(per_channel));
}

void check_activation(const char* op, const Activation& activation) {
  ADJOINT_CHECK(activation.kind <= ActivationKind::kSiLU,
                "{}: the activation's kind must be one of the enumeration's; got {}", op,
                static_cast<int>(activation.kind));
}

Tensor activate(const Tensor& x, const Activation& activation) {
  const OpScope scope("activate");
  check_defined("activate", "x", x);
  check_activation("activate", activation);
  switch (activation.kind) {
    case ActivationKind::kReLU: return relu(x);
    case ActivationKind::kLeakyReLU: return leaky_relu(x, activation.negative_slope);
    case ActivationKind::kTanh: return tanh(x);
    case ActivationKind::kSigmoid: return sigmoid(x);
    case ActivationKind::kSiLU: return silu(x);
    case ActivationKind::kNone: break;
  }
  return x;
}

void activate_in_place(Tensor& x, const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::kReLU: return map_in_place<Relu>(x, {});
    case ActivationKind::kLeakyReLU: return map_in_place<LeakyRelu>(x, {activation.negative_slope});
    case ActivationKind::kTanh: return map_in_place<Tanh>(x, {});
    case ActivationKind::kSigmoid: return map_in_place<Sigmoid>(x, {});
    case ActivationKind::kSiLU: return map_in_place<Silu>(x, {});
    case ActivationKind::kNone: return;
  }
}

Tensor activation_gradient(const Activation& activation, const Tensor& grad, const Tensor& kept) {
  switch (activation.kind) {
    case ActivationKind::kReLU: return binary(relu_grad_op, grad, kept);
    case ActivationKind::kLeakyReLU:
      return apply(leaky_relu_grad_op, {grad, kept}, ScalarAttr{activation.negative_slope});
    case ActivationKind::kTanh: return binary(tanh_grad_op, grad, kept);
    case ActivationKind::kSigmoid: return binary(sigmoid_grad_op, grad, kept);
    case ActivationKind::kSiLU: return binary(silu_grad_op, grad, kept);
    case ActivationKind::kNone: break;
  }
  return grad;
}

}  // namespace adjoint
