// conv and conv_transpose with an activation, and their gradients. With z the convolution's result, y = f(z) and g the
// gradient in y, the gradient in z is dz = g * f'(z), where f' is written in y; the trio's rules take it from there.
//
// All three operands' gradients read dz. A node of the tape computes it once for them, and the bias's sums of dz in the
// same pass over memory.

#include <adjoint/ops/conv/activated.h>

#include <adjoint/core/op.h>
#include <adjoint/ops/conv/infer.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activate.h>

#include <algorithm>
#include <array>

namespace adjoint {
namespace {

struct ActivatedOp {
  OpDef<ActivatedConv> forward;  // without rules: the node below is they
  Tensor (*plain)(const Tensor&, const Tensor&, const Tensor&, const ConvGeometry&);
  Tensor (*input_gradient)(const Tensor& dz, const Tensor& filter, const ConvGeometry&);
  Tensor (*filter_gradient)(const Tensor& input, const Tensor& dz, const ConvGeometry&);
};

constexpr ActivatedOp kConv{
    .forward = {.name = "conv_activated",
                .infer = [](Operands in, const ActivatedConv& attr) { return infer_conv(in, attr.geometry); },
                .cpu = cpu::conv_activated,
                .cuda = ADJOINT_IF_CUDA(cuda::conv_activated)},
    .plain = conv,
    .input_gradient = [](const Tensor& dz, const Tensor& filter,
                         const ConvGeometry& g) { return conv_transpose(dz, filter, {}, g); },
    .filter_gradient = [](const Tensor& image, const Tensor& dz,
                          const ConvGeometry& g) { return conv_weight(image, dz, g); }};

constexpr ActivatedOp kConvTranspose{
    .forward = {.name = "conv_transpose_activated",
                .infer = [](Operands in, const ActivatedConv& attr) { return infer_conv_transpose(in, attr.geometry); },
                .cpu = cpu::conv_transpose_activated,
                .cuda = ADJOINT_IF_CUDA(cuda::conv_transpose_activated)},
    .plain = conv_transpose,
    .input_gradient = [](const Tensor& dz, const Tensor& filter,
                         const ConvGeometry& g) { return conv(dz, filter, {}, g); },
    .filter_gradient = [](const Tensor& feature, const Tensor& dz,
                          const ConvGeometry& g) { return conv_weight(dz, feature, g); }};

struct LinearGradients {
  Tensor z, bias;  // bias: undefined where nobody needs it
};

class ActivatedNode final : public detail::Node {
 public:
  ActivatedNode(const ActivatedOp& op, const ActivatedConv& attr) : op_(op), attr_(attr) {}
  const char* name() const override { return op_.forward.name; }

  void backward(const Tensor& grad, const std::vector<bool>& needed, std::vector<Tensor>& grads, bool record) override {
    const LinearGradients linear = linear_gradients(grad, size == 3 && needed[2], record);
    if (needed[0]) grads[0] = op_.input_gradient(linear.z, saved[1], attr_.geometry);
    if (needed[1]) grads[1] = op_.filter_gradient(saved[0], linear.z, attr_.geometry);
    if (linear.bias.defined()) grads[2] = linear.bias;
  }

 private:
  LinearGradients linear_gradients(const Tensor& grad, bool with_bias, bool record) const {
#if defined(ADJOINT_WITH_CUDA)
    if (with_bias && !record && grad.device().is_cuda() && grad.is_contiguous() && grad.numel() > 0) {
      LinearGradients result{make_tensor({grad.shape(), grad.dtype()}, grad.device()),
                             make_tensor({Shape{grad.size(1)}, grad.dtype()}, grad.device())};
      cuda::activation_and_bias_gradient(attr_.activation, grad, saved_out, result.z, result.bias);
      return result;
    }
#endif
    (void)record;
    LinearGradients result{activation_gradient(attr_.activation, grad, saved_out), {}};
    if (with_bias) result.bias = attr_.geometry.rank == 1 ? result.z.sum({0, 2}) : result.z.sum({0, 2, 3});
    return result;
  }

  const ActivatedOp& op_;
  ActivatedConv attr_;
};

// As apply(), for an operator whose gradients share what they compute.
Tensor run(const ActivatedOp& op, Operands in, const ActivatedConv& attr) {
  Tape* tape = Tape::current();
  if (tape == nullptr) return detail::run(op.forward, in, attr);
  detail::Recording recording(*tape, op.forward.name, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) recording.use(i, in[i]);
  Tensor out = detail::run(op.forward, in, attr);
  if (!recording.needed()) return out;
  std::uint32_t saves = kSaveNone;
  if (recording.needs(0)) saves |= kSaveIn1;
  if (recording.needs(1)) saves |= kSaveIn0;
  recording.commit(tape->impl().make_node<ActivatedNode>(op, attr), in, out, saves, true);
  return out;
}

bool any_requires_grad(Operands in) {
  return std::any_of(in.begin(), in.end(), [](const Tensor& operand) { return operand.requires_grad(); });
}

Tensor run(const ActivatedOp& op, const Tensor& input, const Tensor& filter, const Tensor& bias,
           const ActivatedConv& attr) {
  if (attr.activation.is_none()) return op.plain(input, filter, bias, attr.geometry);
  const std::array<Tensor, 3> operands{input, filter, bias};
  const Operands in{operands.data(), bias.defined() ? 3U : 2U};
  detail::check_operands(op.forward.name, in);
  if (!differentiates_from_result(attr.activation) && Tape::current() != nullptr && any_requires_grad(in)) {
    return activate(op.plain(input, filter, bias, attr.geometry), attr.activation);
  }
  return run(op, in, attr);
}

}  // namespace

Tensor conv_activated(const Tensor& image, const Tensor& filter, const Tensor& bias, const ConvGeometry& geometry,
                      const Activation& activation) {
  return run(kConv, image, filter, bias, {geometry, activation});
}

Tensor conv_transpose_activated(const Tensor& feature, const Tensor& filter, const Tensor& bias,
                                const ConvGeometry& geometry, const Activation& activation) {
  return run(kConvTranspose, feature, filter, bias, {geometry, activation});
}

}  // namespace adjoint
