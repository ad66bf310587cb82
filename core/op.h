// OpDef: everything that an operator is, in one place; apply(): the one way to run one.
//
// An operator is a constinit table of function pointers: what its result looks like, how each device computes it, and
// one gradient rule per operand, written in other operators, so that gradients are differentiable again.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/node.h>
#include <adjoint/core/op_scope.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor.h>
#include <adjoint/core/tensor_impl.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#if defined(ADJOINT_WITH_CUDA)
#define ADJOINT_IF_CUDA(function) function
#else
#define ADJOINT_IF_CUDA(function) nullptr
#endif

namespace adjoint {

using Operands = std::span<const Tensor>;

/// Attributes of an operator that has none.
struct NoAttr {};

/// What a gradient rule may read. `in[i]` and `out` are defined only where the rule's `saves` names them.
template <class Attr>
struct Ctx {
  Operands in;
  const Tensor& out;
  const Tensor& grad;  // the gradient of the result
  const Attr& attr;
  std::size_t index;  // which operand's gradient is asked for
};

/// What a rule needs kept from the forward call.
enum Save : std::uint32_t {
  kSaveNone = 0,
  kSaveIn0 = 1,
  kSaveIn1 = 2,
  kSaveIn2 = 4,
  kSaveIn3 = 8,
  kSaveOut = 1U << 31
};
constexpr Save operator|(Save a, Save b) {
  return static_cast<Save>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// The gradient rule of one operand: d(loss)/d(operand) from d(loss)/d(result). A null rule: not differentiable in it.
template <class Attr>
struct Vjp {
  Save saves = kSaveNone;
  Tensor (*rule)(const Ctx<Attr>&) = nullptr;
};

inline constexpr std::size_t kMaxRules = 4;

template <class Attr = NoAttr>
struct OpDef {
  using Kernel = void (*)(Operands in, Tensor& out, const Attr& attr);

  const char* name;
  /// Checks the operands (they are defined and on one device) and says what the result will be.
  TensorSpec (*infer)(Operands in, const Attr& attr) = nullptr;
  Kernel cpu = nullptr;
  Kernel cuda = nullptr;
  /// In place of infer and kernels: makes the result as a view of operand 0.
  Tensor (*view)(const Tensor& in, const Attr& attr) = nullptr;
  /// Kernels that read any strides. Others get contiguous operands, copied where they are not.
  bool strided = false;
  /// Any number of operands, all under rule 0 (which may save the result, not the operands).
  bool variadic = false;
  std::array<Vjp<Attr>, kMaxRules> vjp = {};

  const Vjp<Attr>& rule(std::size_t operand) const { return vjp[variadic ? 0 : operand]; }
};

namespace detail {

/// Throws Error for undefined operands or several devices.
ADJOINT_API void check_operands(const char* op, Operands in);
[[noreturn]] ADJOINT_API void no_kernel(const char* op, Device device);
/// Contiguous versions of the operands (undefined ones pass through).
ADJOINT_API void make_contiguous(Operands in, std::span<Tensor> out);

template <class Attr>
class OpNode final : public Node {
 public:
  OpNode(const OpDef<Attr>& op, const Attr& attr) : op_(&op), attr_(attr) {}
  const char* name() const override { return op_->name; }
  void backward(const Tensor& grad, const std::vector<bool>& needed, std::vector<Tensor>& grads, bool) override {
    for (std::size_t i = 0; i < size; ++i) {
      if (needed[i]) grads[i] = op_->rule(i).rule({{saved, saved == nullptr ? 0 : size}, saved_out, grad, attr_, i});
    }
  }

 private:
  const OpDef<Attr>* op_;
  [[no_unique_address]] Attr attr_;
};

template <class Attr>
Tensor run(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  if (op.view != nullptr) return op.view(in[0], attr);
  const Device device = in[0].device();
  const TensorSpec spec = op.infer(in, attr);
  Tensor out = make_tensor(spec, spec.device.value_or(device));
  const auto kernel = device.is_cpu() ? op.cpu : op.cuda;
  if (kernel == nullptr) no_kernel(op.name, device);
  if (out.numel() == 0) return out;
  if (op.strided) {
    kernel(in, out, attr);
  } else if (in.size() <= kMaxRules) {
    std::array<Tensor, kMaxRules> packed;
    make_contiguous(in, packed);
    kernel({packed.data(), in.size()}, out, attr);
  } else {
    std::vector<Tensor> packed(in.size());
    make_contiguous(in, packed);
    kernel(packed, out, attr);
  }
  return out;
}

}  // namespace detail

/// Runs `op` and, where a tape of this thread is live and an operand is differentiable, records it.
template <class Attr>
Tensor apply(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  const OpScope scope(op.name);
  detail::check_operands(op.name, in);
  Tape* tape = Tape::current();
  if (tape == nullptr) {
    Tensor out = detail::run(op, in, attr);
    if (op.view != nullptr) detail::mark_view(in[0], out);
    return out;
  }
  detail::Recording recording(*tape, op.name, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (op.rule(i).rule != nullptr) recording.use(i, in[i]);
  }
  Tensor out = detail::run(op, in, attr);
  if (!recording.needed()) {
    if (op.view != nullptr) detail::mark_view(in[0], out);
    return out;
  }
  std::uint32_t saves = kSaveNone;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (recording.needs(i)) saves |= op.rule(i).saves;
  }
  recording.commit(tape->impl().template make_node<detail::OpNode<Attr>>(op, attr), in, out,
                   saves & ~static_cast<std::uint32_t>(kSaveOut), (saves & kSaveOut) != 0);
  return out;
}

template <class Attr>
Tensor apply(const OpDef<Attr>& op, std::initializer_list<Tensor> in, const Attr& attr) {
  return apply(op, Operands(in.begin(), in.size()), attr);
}
inline Tensor apply(const OpDef<NoAttr>& op, std::initializer_list<Tensor> in) { return apply(op, in, NoAttr{}); }

}  // namespace adjoint
