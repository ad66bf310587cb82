// The activations of the table, and those whose parameters are tensors: prelu, snake, glu.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/elementwise/define.h>
#include <adjoint/ops/reduce/define.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <array>

namespace adjoint {
namespace {

using namespace functor;
using elementwise::binary;
using elementwise::define;
using elementwise::define_gradient;
using elementwise::formula_gradient;

using Context = Ctx<NoAttr>;
using Rule = Vjp<NoAttr>;

// f.operator()<F>(): F is the functor of the activation's kind, which must be in the table.
template <class Visitor>
auto visit_activation(const Activation& activation, Visitor&& f) {
  switch (activation.kind) {
#define ADJOINT_CASE(Name, ...) \
  case ActivationKind::k##Name: return f.template operator()<functor::Name>();
    ADJOINT_ACTIVATIONS(ADJOINT_CASE, ADJOINT_CASE, ADJOINT_CASE)
#undef ADJOINT_CASE
    default:
      fail("activate: the activation's kind must be one of the table's; got {}", static_cast<int>(activation.kind));
  }
}

template <template <class> class F>
constexpr elementwise::AttrOf<F> attr_of(const Activation& activation) {
  return functor_attr<F<float>>(activation);
}

// An operator whose last operand is a parameter of the channels, (1, channels, 1...); the others are (batch, channels,
// ...). Its gradient has its own shape, and need not be expanded to theirs first.
template <template <class> class F, auto kMap>
void map_along_channels(Operands in, Tensor& out, const NoAttr& attr) {
  std::array<Tensor, F<float>::kArity> all;
  std::copy(in.begin(), in.end(), all.begin());
  const Tensor& parameter = in.back();
  Strides strides = parameter.strides();
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (parameter.shape()[axis] == 1) strides[axis] = 0;
  }
  all.back() = parameter.view_as(in[0].shape(), strides, parameter.storage_offset());
  kMap(all, out, attr);
}
template <template <class> class F>
constexpr OpDef<NoAttr> mapped_along_channels(OpDef<NoAttr> op) {
  op.cpu = map_along_channels<F, cpu::map<F>>;
  op.cuda = ADJOINT_IF_CUDA((map_along_channels<F, cuda::map<F>>));
  return op;
}

constinit const OpDef<NoAttr> prelu_gate_op =
    define_gradient<PReLUGate>(Rule{kSaveIn1, [](const Context& c) { return binary(prelu_gate_op, c.grad, c.in[1]); }});
/// (g, x)
constinit const OpDef<ReduceAttr> prelu_weight_op{.name = "prelu",
                                                  .infer =
                                                      [](Operands in, const ReduceAttr& attr) {
                                                        return TensorSpec{reducing::result_shape(attr), in[0].dtype()};
                                                      },
                                                  .cpu = cpu::sum_gated,
                                                  .cuda = ADJOINT_IF_CUDA(cuda::sum_gated)};
// g times the values that prelu multiplies by its weight, summed for each weight. In a recorded sweep both factors pass
// the gate, so that neither meets an infinity of the other for a positive x, in any order.
Tensor prelu_weight_gradient(const Tensor& grad, const Tensor& g, const Tensor& x, const Shape& weight) {
  return sum_to(binary(prelu_gate_op, grad, x) * binary(prelu_gate_op, g, x), weight);
}
// (g, x, weight)
constinit const OpDef<NoAttr> prelu_grad_op = mapped_along_channels<PReLUGrad>(
    define_gradient<PReLUGrad>(Rule{kSaveIn1 | kSaveIn2,
                                    [](const Context& c) {
                                      return apply(prelu_grad_op, {c.grad, c.in[1], c.in[2]});
                                    }},
                               Rule{}, Rule{kSaveIn0 | kSaveIn1 | kSaveIn2, [](const Context& c) {
                                              return prelu_weight_gradient(c.grad, c.in[0], c.in[1], c.in[2].shape());
                                            }}));
constinit const OpDef<NoAttr> prelu_op =
    mapped_along_channels<PReLU>(define<PReLU>(Rule{kSaveIn0 | kSaveIn1,
                                                    [](const Context& c) {
                                                      return apply(prelu_grad_op, {c.grad, c.in[0], c.in[1]});
                                                    }},
                                               Rule{kSaveIn0 | kSaveIn1, [](const Context& c) {
                                                      const Tensor &x = c.in[0], &weight = c.in[1];
                                                      if (Tape::current() != nullptr)
                                                        return prelu_weight_gradient(c.grad, x, x, weight.shape());
                                                      ReduceAttr attr{x.shape(), 0, /*keepdim=*/true, 1.0};
                                                      for (std::size_t i = 0; i < x.shape().size(); ++i) {
                                                        if (weight.shape()[i] == 1) attr.axes |= 1U << i;
                                                      }
                                                      return apply(prelu_weight_op, {c.grad, x}, attr);
                                                    }}));

constinit const auto snake_op = define<Snake>(Rule{kSaveIn0 | kSaveIn1, formula_gradient<SnakeGradX>},
                                              Rule{kSaveIn0 | kSaveIn1, formula_gradient<SnakeGradA>});

// In the gradient for x, the result replaces x.
constinit const OpDef<NoAttr> glu_op = define<GLU>(Rule{kSaveIn1,
                                                        [](const Context& c) {
                                                          return apply(glu_op, {c.grad, c.in[1]});
                                                        }},
                                                   Rule{kSaveIn0 | kSaveIn1, formula_gradient<GLUGradGate>});

// `parameter`, with one element or one for each of x's axis 1, in a shape that broadcasts with x.
Tensor along_channels(const char* op, const char* name, const Tensor& parameter, const Tensor& x) {
  check_defined(op, "x", x);
  check_defined(op, name, parameter);
  const std::int64_t channels = x.dim() < 2 ? 1 : x.shape()[1];
  ADJOINT_CHECK(parameter.dim() == 1 && (parameter.numel() == 1 || parameter.numel() == channels),
                "{}: {} must have one element, or one for each element of x's axis 1; got x {}, {} {}", op, name,
                x.shape(), name, parameter.shape());
  Shape shape = Dims::filled(x.shape().size(), 1);
  if (parameter.numel() != 1 && x.dim() >= 2) shape[1] = channels;
  return parameter.reshape(shape);
}

}  // namespace

#define ADJOINT_FUNCTION0(Name, function, fused) \
  Tensor function(const Tensor& x) { return elementwise::unary(elementwise::UnaryOp<functor::Name>::op, x); }
#define ADJOINT_FUNCTION1(Name, function, fused, a, ...)                        \
  Tensor function(const Tensor& x, double a) {                                  \
    return elementwise::unary(elementwise::UnaryOp<functor::Name>::op, x, {a}); \
  }
#define ADJOINT_FUNCTION2(Name, function, fused, a, a_default, b, b_default)               \
  Tensor function(const Tensor& x, double a, double b) {                                   \
    return elementwise::unary(elementwise::UnaryOp<functor::Name>::op, x, PairAttr{a, b}); \
  }
ADJOINT_ACTIVATIONS(ADJOINT_FUNCTION0, ADJOINT_FUNCTION1, ADJOINT_FUNCTION2)
#undef ADJOINT_FUNCTION0
#undef ADJOINT_FUNCTION1
#undef ADJOINT_FUNCTION2

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const OpScope scope("prelu");
  return apply(prelu_op, {x, along_channels("prelu", "weight", weight, x)});
}

Tensor snake(const Tensor& x, const Tensor& a) {
  const OpScope scope("snake");
  return binary(snake_op, x, along_channels("snake", "a", a, x));
}

Tensor glu(const Tensor& x, std::int64_t axis) {
  const OpScope scope("glu");
  check_defined("glu", "x", x);
  const auto at = static_cast<std::int64_t>(resolve_axis("glu", axis, x.shape().size()));
  ADJOINT_CHECK(x.size(at) % 2 == 0, "glu: the axis must have an even extent; got {} of axis {} of x {}", x.size(at),
                at, x.shape());
  const std::int64_t half = x.size(at) / 2;
  return apply(glu_op, {x.narrow(at, 0, half), x.narrow(at, half, half)});
}

void check_activation(const char* op, const Activation& activation) {
  ADJOINT_CHECK(activation.kind < ActivationKind::kEnd,
                "{}: the activation's kind must be one of the enumeration's; got {}", op,
                static_cast<int>(activation.kind));
}

bool fuses_into_convolution(const Activation& activation) {
#define ADJOINT_FUSED(Name, function, fused, ...) || (ActivationKind::k##Name == activation.kind && fused)
  return activation.is_none() ADJOINT_ACTIVATIONS(ADJOINT_FUSED, ADJOINT_FUSED, ADJOINT_FUSED);
#undef ADJOINT_FUSED
}

Tensor gelu(const Tensor& x, std::string_view approximate) {
  ADJOINT_CHECK(approximate == "none" || approximate == "tanh",
                "gelu: approximate must be \"none\" or \"tanh\"; got \"{}\"", approximate);
  return approximate == "tanh" ? gelu_tanh(x) : gelu(x);
}

Tensor activate(const Tensor& x, const Activation& activation) {
  const OpScope scope("activate");
  check_defined("activate", "x", x);
  check_activation("activate", activation);
  if (activation.is_none()) return x;
  return visit_activation(activation, [&]<template <class> class F>() {
    return elementwise::unary(elementwise::UnaryOp<F>::op, x, attr_of<F>(activation));
  });
}

void activate_in_place(Tensor& x, const Activation& activation) {
  if (activation.is_none()) return;
  visit_activation(activation, [&]<template <class> class F>() {
    apply_into(elementwise::UnaryOp<F>::op, x, Operands(&x, 1), attr_of<F>(activation));
  });
}

Tensor activation_gradient(const Activation& activation, const Tensor& grad, const Tensor& kept) {
  if (activation.is_none()) return grad;
  return visit_activation(activation, [&]<template <class> class F>() {
    return elementwise::UnaryOp<F>::gradient(grad, kept, attr_of<F>(activation));
  });
}

void activation_gradient_into(Tensor& out, const Activation& activation, const Tensor& grad, const Tensor& kept) {
  const std::array<Tensor, 2> operands{grad, kept};
  visit_activation(activation, [&]<template <class> class F>() {
    apply_into(elementwise::UnaryOp<F>::gradient_op, out, operands, attr_of<F>(activation));
  });
}

}  // namespace adjoint
