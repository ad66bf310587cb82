// Call traces: observers of the operators that a thread calls, by which a network is written to a file (nn/onnx) or
// planned (nn/plan.h). Internal.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace adjoint {

class OnnxCall;  // core/graph/onnx_call.h
class Tensor;

/// A value in an ONNX graph. Missing: an optional input that a node does not have.
struct OnnxValue {
  std::int32_t id = -1;
  bool is_missing() const { return id < 0; }
};

/// A function that translates an operator's calls to ONNX and returns the first result, or the reason why ONNX cannot
/// express the operator. Operators that only gradients call need neither.
template <class Attr>
struct OnnxRule {
  using Translate = OnnxValue (*)(OnnxCall& call, const Attr& attr);
  Translate translate = nullptr;
  const char* reason = nullptr;

  constexpr OnnxRule() = default;
  constexpr OnnxRule(const char* why) : reason(why) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<Translate> F>
  constexpr OnnxRule(F f) : translate(f) {}  // NOLINT(google-explicit-constructor)
};

namespace detail {

class PlannedCall;  // core/graph/planned_call.h

/// A call of an operator.
class ADJOINT_API OperatorCall {
 public:
  const char* const name;
  const std::span<const Tensor> in, out;
  const bool in_place;  // `out` was overwritten

  virtual bool has_rule() const = 0;
  /// Why there is no rule, or null.
  virtual const char* reason() const = 0;
  virtual OnnxValue translate(OnnxCall& call) const = 0;
  /// The call, to be repeated; null if there is nothing to repeat: its results are views.
  virtual std::unique_ptr<PlannedCall> planned() const;

  virtual ~OperatorCall() = default;
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

 protected:
  OperatorCall(const char* op, std::span<const Tensor> operands, std::span<const Tensor> results, bool writes)
      : name(op), in(operands), out(results), in_place(writes) {}
};

template <class Attr>
class OperatorCallOf : public OperatorCall {
 public:
  OperatorCallOf(const char* op, const OnnxRule<Attr>& rule, std::span<const Tensor> operands,
                 std::span<const Tensor> results, const Attr& attr, bool writes)
      : OperatorCall(op, operands, results, writes), rule_(rule), attr_(attr) {}
  bool has_rule() const override { return rule_.translate != nullptr; }
  const char* reason() const override { return rule_.reason; }
  OnnxValue translate(OnnxCall& call) const override { return rule_.translate(call, attr_); }

 protected:
  const Attr& attr() const { return attr_; }

 private:
  const OnnxRule<Attr>& rule_;
  const Attr& attr_;
};

class ADJOINT_API CallTrace {
 public:
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  /// The calls that a trace follows.
  enum class Calls : std::uint8_t {
    kOperators,
    kFunctions,  // functions of several operators are one call if ONNX has one operator for them
  };

  /// This thread's trace. Null without a trace, and inside an operator.
  static CallTrace* current() { return context().trace; }
  /// The same, if it follows functions.
  static CallTrace* of_functions() {
    CallTrace* const trace = context().trace;
    return trace != nullptr && trace->calls_ == Calls::kFunctions ? trace : nullptr;
  }

  /// Follows every call of an operator that is not part of another operator.
  virtual void called(const OperatorCall& call) = 0;
  /// Precedes an operator's write to a tensor that is there already.
  virtual void overwrites(const Tensor& target) = 0;
  /// Precedes an access to a tensor's elements outside of operators.
  virtual void accesses(const Tensor& tensor, bool writes) = 0;
  /// Precedes a use of random numbers.
  virtual void draws() = 0;
  /// Follows a check of elements: see check_elements().
  virtual void checked(const char* op, const Tensor& values, std::function<void(const Tensor&)> check) = 0;

 protected:
  explicit CallTrace(Calls calls) : calls_(calls) {}
  ~CallTrace() = default;

 private:
  const Calls calls_;
};

/// Makes `trace` this thread's while it lives; null pauses a trace.
class TraceScope {
 public:
  explicit TraceScope(CallTrace* trace) : outer_(std::exchange(context().trace, trace)) {}
  ~TraceScope() { context().trace = outer_; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  CallTrace* outer_;
};

/// check(values) throws Error for elements that `op` does not accept. Planned calls repeat it; files of networks leave
/// it out.
template <class F>
void check_elements(const char* op, const Tensor& values, F&& check) {
  CallTrace* const trace = CallTrace::current();
  const TraceScope unseen(nullptr);
  check(values);
  if (trace != nullptr) [[unlikely]]
    trace->checked(op, values, std::forward<F>(check));
}

}  // namespace detail
}  // namespace adjoint
