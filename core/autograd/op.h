// You are at stop 2 of 7 of the README's reading path, the tape: this is an operator, and the way of every call. node.h
// comes next.
//
// OpDef: the complete definition of an operator; apply(): the only way to run one.
//
// An operator is a constinit table of function pointers: the specification of its results, each device's kernel, and
// its gradients, one rule per operand or one for all. Rules are written in other operators, so gradients are
// differentiable again.
#pragma once

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/profile/profiled_call.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#if defined(ADJOINT_WITH_CUDA)
#define ADJOINT_IF_CUDA(function) function
#else
#define ADJOINT_IF_CUDA(function) nullptr
#endif

namespace adjoint {

using Operands = std::span<const Tensor>;
using Results = std::span<Tensor>;

/// The attributes of an operator that has none.
struct NoAttr {};

inline constexpr std::size_t kMaxRules = 4;
inline constexpr std::size_t kMaxResults = 4;
inline constexpr std::size_t kMaxOutputs = 8;  // results, then tensors kept only for the gradient

/// The data that a gradient rule may read. Operands and results are defined only if `saves` names them.
template <class Attr>
struct Ctx {
  Operands in;
  Operands outs;   // the results, then the kept tensors
  Operands grads;  // the results' gradients; an undefined one stands for zero
  const Attr& attr;
  std::size_t index;   // the operand whose gradient is requested
  const Tensor& out;   // the first result
  const Tensor& grad;  // the gradient of the first result

  Ctx(Operands in_, Operands outs_, Operands grads_, const Attr& attr_, std::size_t index_)
      : in(in_), outs(outs_), grads(grads_), attr(attr_), index(index_), out(outs.front()), grad(grads.front()) {}
};

/// The operands and results of the forward call that a rule needs. All operands from 23 on are kept together.
enum Save : std::uint32_t {
  kSaveNone = 0,
  kSaveIn0 = 1,
  kSaveIn1 = 2,
  kSaveIn2 = 4,
  kSaveIn3 = 8,
  kSaveOut = 1U << detail::kSavedOperandBits,
  kSaveOut1 = 2U << detail::kSavedOperandBits,
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

/// The operands whose gradients are needed; one flag covers all from operand 31 on.
struct Needs {
  std::uint32_t bits = 0;
  bool operator[](std::size_t operand) const { return (bits >> std::min<std::size_t>(operand, 31) & 1U) != 0; }
  void add(std::size_t operand) { bits |= 1U << std::min<std::size_t>(operand, 31); }
};

/// The gradients of all operands, for rules that share work: writes grads[i] for every needed operand.
template <class Attr>
struct JointVjp {
  Save (*saves)(const Attr& attr, Needs needs) = nullptr;
  void (*rule)(const Ctx<Attr>&, Needs needs, Results grads) = nullptr;
};

/// The specification of a call's results.
struct Specs {
  std::array<TensorSpec, kMaxOutputs> specs;
  std::size_t results = 1;
  std::size_t kept = 0;
};

/// Checks the operands and returns the specification of the results: one result, or Specs.
template <class Attr>
struct Infer {
  using One = TensorSpec (*)(Operands in, const Attr& attr);
  using Many = Specs (*)(Operands in, const Attr& attr);
  One one = nullptr;
  Many many = nullptr;

  constexpr Infer() = default;
  template <std::convertible_to<One> F>
  constexpr Infer(F f) : one(f) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<Many> F>
  constexpr Infer(F f) : many(f) {}  // NOLINT(google-explicit-constructor)
};

/// Computes one result, or several results and the tensors kept after them, which are undefined if no gradient will
/// need them.
template <class Attr>
struct Kernel {
  using One = void (*)(Operands in, Tensor& out, const Attr& attr);
  using Many = void (*)(Operands in, Results out, const Attr& attr);
  One one = nullptr;
  Many many = nullptr;

  constexpr Kernel() = default;
  constexpr Kernel(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<One> F>
  constexpr Kernel(F f) : one(f) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<Many> F>
  constexpr Kernel(F f) : many(f) {}  // NOLINT(google-explicit-constructor)

  bool exists() const { return one != nullptr || many != nullptr; }
  void operator()(Operands in, Results out, const Attr& attr) const {
    many != nullptr ? many(in, out, attr) : one(in, out[0], attr);
  }
};

/// The bytes that a call moves and the FLOP that it computes.
struct Cost {
  double bytes = 0.0;
  double flop = 0.0;
};

/// An operator's treatment of operands in channels_last (core/tensor/memory_format.h).
enum class Formats : std::uint8_t {
  kNone,         // results are contiguous; kernels that are not `strided` read contiguous copies
  kElementwise,  // operands have the result's shape, and kernels ignore the order of the axes: they run in memory's
  kAnyStrides,   // results follow the operands' format, and kernels read and write any strides
  kImages,       // results follow the operands' format, through contiguous copies unless a function below avoids them
};

template <class Attr = NoAttr>
struct OpDef {
  const char* name;
  /// Operands are defined, except optional ones, and on one device.
  Infer<Attr> infer = {};
  Kernel<Attr> cpu = {};
  Kernel<Attr> cuda = {};
  /// In place of infer and kernels: creates the result as a view of operand 0.
  Tensor (*view)(const Tensor& in, const Attr& attr) = nullptr;
  /// Kernels read any strides. Otherwise they get contiguous operands, copied if necessary.
  bool strided = false;
  Formats formats = Formats::kNone;
  /// For Formats::kImages. The attributes with which the kernels compute channels_last results from views of operands
  /// and results in memory's order, (N, ..., C), or nothing if they cannot. Operands and results of fewer axes than
  /// operand 0 are not permuted.
  std::optional<Attr> (*in_memory_order)(Operands in, const Attr& attr) = nullptr;
  /// For Formats::kImages: computes the results, which are in channels_last, from operands in any strides. Returns
  /// false, and does nothing, if contiguous copies must be used.
  bool (*channels_last)(Operands in, Results out, const Attr& attr) = nullptr;
  /// The CPU kernel's work for one call that is repeated (nn::Plan), with everything decided that does not depend on
  /// elements, except on those of frozen operands: the result allocates nothing. Null, or an empty result: repeated
  /// calls run the kernel.
  std::function<void()> (*prepare)(Operands in, Results out, const Attr& attr) = nullptr;
  /// Any number of operands, all under rule 0 (which may save results, not the operands).
  bool variadic = false;
  /// Bit i: operand i may be undefined. Operand 0 may not.
  std::uint32_t optional = 0;
  MixedPrecision mixed_precision = MixedPrecision::kWidest;
  /// An elementwise operator of floating-point dtypes, before which integers and bool become float32.
  bool floating = false;
  /// Null: operands and results are moved once, and nothing is computed.
  Cost (*cost)(Operands in, Operands out, const Attr& attr) = nullptr;
  OnnxRule<Attr> onnx = {};
  /// One rule per operand, or one for all of them.
  std::array<Vjp<Attr>, kMaxRules> vjp = {};
  JointVjp<Attr> joint_vjp = {};

  const Vjp<Attr>& rule(std::size_t operand) const { return vjp[variadic ? 0 : operand]; }
  bool differentiable_in(std::size_t operand) const {
    return joint_vjp.rule != nullptr || rule(operand).rule != nullptr;
  }
};

namespace detail {

/// Throws Error for undefined operands that are not optional, and for several devices.
ADJOINT_API void check_operands(const char* op, Operands in, std::uint32_t optional);
/// Throws Error if an operator's result does not match the target.
ADJOINT_API void check_target(const char* op, const Tensor& target, const TensorSpec& spec);
[[noreturn]] ADJOINT_API void no_kernel(const char* op, Device device);
/// An uninitialised result of an operator: the place that a sweep provides for a leaf's gradient if it fits, or a new
/// tensor.
ADJOINT_API Tensor make_result(const TensorSpec& spec, Device device);
/// Contiguous versions of the operands (undefined ones pass through).
ADJOINT_API void make_contiguous(Operands in, std::span<Tensor> out);
/// Results to compute in place of `out`: those that are contiguous, and new ones for the others.
ADJOINT_API void make_contiguous_results(Operands out, std::span<Tensor> contiguous);
/// Copies each defined tensor to the one beside it, unless they are the same.
ADJOINT_API void copy_results(Operands from, Results to);
/// Views of the tensors in the memory order of channels_last. Those of another rank than `rank` pass through.
ADJOINT_API void in_memory_order(std::size_t rank, Operands in, std::span<Tensor> out);

template <class Attr>
class OpNode final : public Node {
 public:
  OpNode(const OpDef<Attr>& op, const Attr& attr) : op_(&op), attr_(attr) {}
  const char* name() const override { return op_->name; }
  void backward(Operands grads, const std::vector<bool>& needed, std::vector<Tensor>& operand_grads) override {
    const Tensor nothing[1] = {};
    const Operands in = saved == nullptr ? Operands{} : Operands{saved, size};
    const Operands outs = saved == nullptr ? Operands{nothing} : Operands{saved + size, outputs};
    if (op_->joint_vjp.rule != nullptr) {
      Needs needs;
      for (std::size_t i = 0; i < size; ++i) {
        if (needed[i]) needs.add(i);
      }
      return op_->joint_vjp.rule({in, outs, grads, attr_, 0}, needs, operand_grads);
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (needed[i]) operand_grads[i] = op_->rule(i).rule({in, outs, grads, attr_, i});
    }
  }

 private:
  const OpDef<Attr>* op_;
  [[no_unique_address]] Attr attr_;
};

/// A call's results, followed by the tensors it keeps.
struct Outputs {
  std::array<Tensor, kMaxOutputs> tensors;
  std::size_t results = 1;
  std::size_t kept = 0;

  Results all() { return {tensors.data(), results + kept}; }
};

template <class Attr>
void compute(const OpDef<Attr>& op, Operands in, Results out, const Attr& attr);

/// compute() on views of operands and results in the memory order of channels_last.
template <class Attr>
void compute_in_memory_order(const OpDef<Attr>& op, Operands in, Results out, const Attr& attr) {
  const std::size_t rank = in[0].shape().size();
  std::array<Tensor, kMaxOutputs> results;
  in_memory_order(rank, out, results);
  const auto run = [&](std::span<Tensor> views) {
    in_memory_order(rank, in, views);
    compute(op, views, {results.data(), out.size()}, attr);
  };
  if (in.size() <= kMaxRules) {
    std::array<Tensor, kMaxRules> views;
    run({views.data(), in.size()});
  } else {
    ScratchVector<Tensor> views(in.size());
    run(views);
  }
}

/// Every kernel of every operator runs here.
template <class Attr>
void compute(const OpDef<Attr>& op, Operands in, Results out, const Attr& attr) {
  const Device device = in[0].device();
  const Kernel<Attr>& kernel = device.is_cpu() ? op.cpu : op.cuda;
  if (!kernel.exists()) no_kernel(op.name, device);
  if (std::all_of(out.begin(), out.end(), [](const Tensor& t) { return !t.defined() || t.numel() == 0; })) return;
  if (op.formats == Formats::kElementwise && out[0].impl()->channels_last) {
    compute_in_memory_order(op, in, out, attr);
  } else if (op.strided) {
    kernel(in, out, attr);
  } else if (in.size() <= kMaxRules) {
    std::array<Tensor, kMaxRules> packed;
    make_contiguous(in, packed);
    kernel({packed.data(), in.size()}, out, attr);
  } else {
    ScratchVector<Tensor> packed(in.size());
    make_contiguous(in, packed);
    kernel(packed, out, attr);
  }
}

/// Uninitialised results. Those whose rank has the format are made in it, unless their specification names another.
/// Nothing else makes tensors in the places of leaves' gradients.
template <class Attr>
Outputs make_results(const OpDef<Attr>& op, Operands in, const Attr& attr, bool keep, MemoryFormat format) {
  const auto make = [&](TensorSpec spec) {
    if (!spec.format && has_format(spec.shape.size(), format)) spec.format = format;
    return make_result(spec, spec.device.value_or(in[0].device()));
  };
  Outputs out;
  if (op.infer.many == nullptr) {
    out.tensors[0] = make(op.infer.one(in, attr));
  } else {
    const Specs specs = op.infer.many(in, attr);
    out.results = specs.results;
    out.kept = specs.kept;
    for (std::size_t i = 0; i < specs.results + (keep ? specs.kept : 0); ++i) out.tensors[i] = make(specs.specs[i]);
  }
  return out;
}

/// The format that the results follow.
template <class Attr>
MemoryFormat format_of(const OpDef<Attr>& op, Operands in) {
  return op.formats == Formats::kNone ? kContiguous : leading_format(in);
}

/// Computes results that exist, in that format.
template <class Attr>
void fill(const OpDef<Attr>& op, Operands in, Results out, const Attr& attr, MemoryFormat format) {
  if (op.formats != Formats::kImages || format == kContiguous) return compute(op, in, out, attr);
  if (op.channels_last != nullptr && op.channels_last(in, out, attr)) return;
  if (op.in_memory_order != nullptr) {
    if (const std::optional<Attr> own = op.in_memory_order(in, attr)) {
      return compute_in_memory_order(op, in, out, *own);
    }
  }
  std::array<Tensor, kMaxOutputs> contiguous;
  make_contiguous_results(out, contiguous);
  compute(op, in, {contiguous.data(), out.size()}, attr);
  copy_results({contiguous.data(), out.size()}, out);
}

template <class Attr>
Outputs run(const OpDef<Attr>& op, Operands in, const Attr& attr, bool keep) {
  Outputs out;
  if (op.view != nullptr) {
    out.tensors[0] = op.view(in[0], attr);
    return out;
  }
  const MemoryFormat format = format_of(op, in);
  out = make_results(op, in, attr, keep, format);
  fill(op, in, out.all(), attr, format);
  return out;
}

/// Recorded if necessary.
template <class Attr>
Outputs run_recorded(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  Tape* tape = Tape::current();
  if (tape == nullptr) {
    Outputs out = run(op, in, attr, false);
    if (op.view != nullptr) mark_view(in[0], out.tensors[0]);
    return out;
  }
  Recording recording(*tape, op.name, in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].defined() && op.differentiable_in(i)) recording.use(i, in[i]);
  }
  Outputs out;
  {
    const HiddenTape unrecorded;
    out = run(op, in, attr, recording.needed());
  }
  if (!recording.needed()) {
    if (op.view != nullptr) mark_view(in[0], out.tensors[0]);
    return out;
  }
  std::uint32_t saves = kSaveNone;
  if (op.joint_vjp.rule != nullptr) {
    Needs needs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (recording.needs(i)) needs.add(i);
    }
    saves = op.joint_vjp.saves(attr, needs);
  } else {
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (recording.needs(i)) saves |= op.rule(i).saves;
    }
  }
  recording.commit(tape->impl().template make_node<OpNode<Attr>>(op, attr), in, out.all(), out.results, saves);
  return out;
}

/// The cost of a call, for a profile.
template <class Attr>
Cost cost_of(const OpDef<Attr>& op, Operands in, Operands out, const Attr& attr) {
  if (op.view != nullptr) return {};
  return op.cost != nullptr ? op.cost(in, out, attr) : Cost{moved_bytes(in, out), 0.0};
}

template <class Attr>
class PlannedCallOf final : public PlannedCall {
 public:
  PlannedCallOf(const OpDef<Attr>& op, Operands operands, Operands results, const Attr& attr)
      : PlannedCall(op.name, operands, results), op_(op), attr_(attr), format_(format_of(op, operands)) {}
  void prepare() override {
    const auto is_packed = [](const Tensor& t) { return !t.defined() || t.is_contiguous(); };
    const bool all_packed =
        std::all_of(in.begin(), in.end(), is_packed) && std::all_of(out.begin(), out.end(), is_packed);
    if (op_.prepare != nullptr && in[0].device().is_cpu() && all_packed) prepared_ = op_.prepare(in, out, attr_);
  }
  void run() override { prepared_ ? prepared_() : fill(op_, in, out, attr_, format_); }

 private:
  const OpDef<Attr>& op_;
  [[no_unique_address]] const Attr attr_;
  const MemoryFormat format_;
  std::function<void()> prepared_;
};

/// A call as traces see it.
template <class Attr>
class DefinedCall final : public OperatorCallOf<Attr> {
 public:
  DefinedCall(const OpDef<Attr>& op, Operands operands, const Outputs& made, const Attr& attr)
      : OperatorCallOf<Attr>(op.name, op.onnx, operands, {made.tensors.data(), made.results}, attr, false),
        op_(op),
        all_(made.tensors.data(), made.results + made.kept) {}
  DefinedCall(const OpDef<Attr>& op, Operands operands, const Tensor& target, const Attr& attr)
      : OperatorCallOf<Attr>(op.name, op.onnx, operands, {&target, 1}, attr, true), op_(op), all_(&target, 1) {}
  std::unique_ptr<PlannedCall> planned() const override {
    if (op_.view != nullptr) return nullptr;
    return std::make_unique<PlannedCallOf<Attr>>(op_, this->in, all_, this->attr());
  }

 private:
  const OpDef<Attr>& op_;
  const Operands all_;  // the results, then the kept tensors
};

/// The call without mixed precision.
template <class Attr>
Outputs call_as_given(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  if (CallTrace* const trace = CallTrace::current(); trace != nullptr) [[unlikely]] {
    Outputs out;
    {
      const TraceScope inside(nullptr);
      out = call_as_given(op, in, attr);
    }
    trace->called(DefinedCall<Attr>(op, in, out, attr));
    return out;
  }
  ProfiledCall profiled(op.name, in);
  Outputs out = run_recorded(op, in, attr);
  if (profiled) [[unlikely]] {
    const Cost cost = cost_of(op, in, out.all(), attr);
    profiled.cost(cost.bytes, cost.flop);
  }
  return out;
}

/// Every recorded or recordable call of every operator passes here.
template <class Attr>
Outputs call(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  const OpScope scope(op.name);
  check_operands(op.name, in, op.optional);
  if (autocast_region() == nullptr) [[likely]]
    return call_as_given(op, in, attr);
  const AutocastCall cast(op.mixed_precision, in);
  return call_as_given(op, cast.operands(), attr);
}

/// target = op(in), checked.
template <class Attr>
void compute_into(const OpDef<Attr>& op, Tensor& target, Operands in, const Attr& attr) {
  ProfiledCall profiled(op.name, in);
  if (profiled) [[unlikely]] {
    const Cost cost = cost_of(op, in, Operands(&target, 1), attr);
    profiled.cost(cost.bytes, cost.flop);
  }
  const bool is_any_order = op.formats == Formats::kElementwise && target.is_contiguous(target.memory_format());
  if (target.is_contiguous() || is_any_order) return compute(op, in, Results(&target, 1), attr);
  Tensor result = make_tensor({target.shape(), target.dtype()}, target.device());
  compute(op, in, Results(&result, 1), attr);
  copy_into(result, target);
}

}  // namespace detail

/// Runs `op` and records it if a tape of this thread is live and an operand is differentiable. Returns the first of
/// several results.
template <class Attr>
Tensor apply(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  return std::move(detail::call(op, in, attr).tensors[0]);
}
template <class Attr>
Tensor apply(const OpDef<Attr>& op, std::initializer_list<Tensor> in, const Attr& attr) {
  return apply(op, Operands(in.begin(), in.size()), attr);
}
inline Tensor apply(const OpDef<NoAttr>& op, std::initializer_list<Tensor> in) { return apply(op, in, NoAttr{}); }

/// Like apply(), with all results.
template <class Attr>
std::array<Tensor, kMaxResults> apply_all(const OpDef<Attr>& op, Operands in, const Attr& attr) {
  detail::Outputs out = detail::call(op, in, attr);
  std::array<Tensor, kMaxResults> results;
  std::move(out.tensors.begin(), out.tensors.begin() + static_cast<std::ptrdiff_t>(out.results), results.begin());
  return results;
}
template <class Attr>
std::array<Tensor, kMaxResults> apply_all(const OpDef<Attr>& op, std::initializer_list<Tensor> in, const Attr& attr) {
  return apply_all(op, Operands(in.begin(), in.size()), attr);
}

/// target = op(in), in place and never recorded, for an operator with one result; operands may be the target itself.
/// Throws Error, naming `op`, if the target must not be written, if the result would not have its shape and dtype, and,
/// while a tape records, for operands that require a gradient.
template <class Attr>
void apply_into(const OpDef<Attr>& op, Tensor& target, Operands in, const Attr& attr) {
  const OpScope scope(op.name);
  check_writable(op.name, target, in);
  detail::check_operands(op.name, in, op.optional);
  detail::check_target(op.name, target, op.infer.one(in, attr));
  detail::CallTrace* const trace = detail::CallTrace::current();
  if (trace == nullptr) [[likely]]
    return detail::compute_into(op, target, in, attr);
  trace->overwrites(target);
  {
    const detail::TraceScope inside(nullptr);
    detail::compute_into(op, target, in, attr);
  }
  trace->called(detail::DefinedCall<Attr>(op, in, target, attr));
}

}  // namespace adjoint
