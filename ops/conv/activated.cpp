// conv and conv_transpose with an activation, and their gradients. With z the convolution's result, y = f(z) and g the
// gradient in y, the gradient in z is dz = g * f'(z), and the trio's rules take it from there. f' is written in y,
// which is kept; where it does not follow from y, the forward call writes z beside it, and z is kept instead.
//
// All three operands' gradients read dz. A node of the tape computes it once for them, and the bias's sums of dz in the
// same pass over memory.

#include <adjoint/ops/conv/activated.h>

#include <adjoint/core/op.h>
#include <adjoint/ops/conv/infer.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/trio.h>
#include <adjoint/ops/elementwise/activate.h>

#include <array>
#include <utility>

namespace adjoint {
namespace {

struct ActivatedOp {
  OpDef<ActivatedConv> forward;  // without rules: the node below is they
  Tensor (*linear)(const Tensor& input, const Tensor& filter, const Tensor& bias, const ConvGeometry&);
  Tensor (*input_gradient)(const Tensor& dz, const Tensor& filter, const ConvGeometry&);
  Tensor (*filter_gradient)(const Tensor& input, const Tensor& dz, const ConvGeometry&);
};

constexpr ActivatedOp kConv{
    .forward = {.name = "conv_activated",
                .infer = [](Operands in, const ActivatedConv& attr) { return infer_conv(in, attr.geometry); },
                .cpu = cpu::conv_activated,
                .cuda = ADJOINT_IF_CUDA(cuda::conv_activated)},
    .linear = conv,
    .input_gradient = [](const Tensor& dz, const Tensor& filter,
                         const ConvGeometry& g) { return conv_transpose(dz, filter, {}, g); },
    .filter_gradient = [](const Tensor& image, const Tensor& dz,
                          const ConvGeometry& g) { return conv_weight(image, dz, g); }};

constexpr ActivatedOp kConvTranspose{
    .forward = {.name = "conv_transpose_activated",
                .infer = [](Operands in, const ActivatedConv& attr) { return infer_conv_transpose(in, attr.geometry); },
                .cpu = cpu::conv_transpose_activated,
                .cuda = ADJOINT_IF_CUDA(cuda::conv_transpose_activated)},
    .linear = conv_transpose,
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

  /// In place of the result.
  void keep(const Tensor& linear) {
    saved_out = linear;
    out_version = linear.impl()->storage->version();
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
    // A kept z has no place on the tape: where the sweep is recorded, it is computed again, with the same bits.
    const bool again = record && !differentiates_from_result(attr_.activation);
    const Tensor kept =
        again ? op_.linear(saved[0], saved[1], size == 3 ? saved[2] : Tensor{}, attr_.geometry) : saved_out;
    LinearGradients result{activation_gradient(attr_.activation, grad, kept), {}};
    if (with_bias) result.bias = attr_.geometry.rank == 1 ? result.z.sum({0, 2}) : result.z.sum({0, 2, 3});
    return result;
  }

  const ActivatedOp& op_;
  ActivatedConv attr_;
};

// As apply(), for an operator whose gradients share what they compute.
Tensor run(const ActivatedOp& op, Operands in, ActivatedConv attr) {
  detail::check_operands(op.forward.name, in);
  Tape* tape = Tape::current();
  if (tape == nullptr) return detail::run(op.forward, in, attr);
  detail::Recording recording(*tape, op.forward.name, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) recording.use(i, in[i]);
  if (!recording.needed()) return detail::run(op.forward, in, attr);

  const bool from_result = differentiates_from_result(attr.activation);
  Tensor linear;
  if (!from_result) {
    linear = make_tensor(op.forward.infer(in, attr), in[0].device());
    attr.linear = &linear;
  }
  const Tensor out = detail::run(op.forward, in, attr);
  attr.linear = nullptr;
  std::uint32_t saves = kSaveNone;
  if (recording.needs(0) || !from_result) saves |= kSaveIn1;
  if (recording.needs(1) || !from_result) saves |= kSaveIn0;
  if (in.size() == 3 && !from_result) saves |= kSaveIn2;
  auto node = tape->impl().make_node<ActivatedNode>(op, attr);
  if (!from_result) node->keep(linear);
  recording.commit(std::move(node), in, out, saves, from_result);
  return out;
}

Tensor run(const ActivatedOp& op, const Tensor& input, const Tensor& filter, const Tensor& bias,
           const ActivatedConv& attr) {
  if (attr.activation.is_none()) return op.linear(input, filter, bias, attr.geometry);
  const std::array<Tensor, 3> operands{input, filter, bias};
  return run(op, {operands.data(), bias.defined() ? 3U : 2U}, attr);
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
