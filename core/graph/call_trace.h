// Call traces: observers of the operators that a thread calls, by which a network is written to a file (nn/onnx).
// Internal.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>

#include <concepts>
#include <cstdint>
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

/// A call of an operator.
class OperatorCall {
 public:
  const char* const name;
  const std::span<const Tensor> in, out;
  const bool in_place;  // `out` was overwritten

  virtual bool has_rule() const = 0;
  /// Why there is no rule, or null.
  virtual const char* reason() const = 0;
  virtual OnnxValue translate(OnnxCall& call) const = 0;

 protected:
  OperatorCall(const char* op, std::span<const Tensor> operands, std::span<const Tensor> results, bool writes)
      : name(op), in(operands), out(results), in_place(writes) {}
  ~OperatorCall() = default;
};

template <class Attr>
class OperatorCallOf final : public OperatorCall {
 public:
  OperatorCallOf(const char* op, const OnnxRule<Attr>& rule, std::span<const Tensor> operands,
                 std::span<const Tensor> results, const Attr& attr, bool writes)
      : OperatorCall(op, operands, results, writes), rule_(rule), attr_(attr) {}
  bool has_rule() const override { return rule_.translate != nullptr; }
  const char* reason() const override { return rule_.reason; }
  OnnxValue translate(OnnxCall& call) const override { return rule_.translate(call, attr_); }

 private:
  const OnnxRule<Attr>& rule_;
  const Attr& attr_;
};

class ADJOINT_API CallTrace {
 public:
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  /// This thread's trace. Null without a trace, and inside an operator.
  static CallTrace* current() { return context().trace; }

  /// Follows every call of an operator that is not part of another operator.
  virtual void called(const OperatorCall& call) = 0;
  /// Precedes an operator's write to a tensor that is there already.
  virtual void overwrites(const Tensor& target) = 0;
  /// Precedes an access to a tensor's elements outside of operators.
  virtual void accesses(const Tensor& tensor, bool writes) = 0;
  /// Precedes a use of random numbers.
  virtual void draws() = 0;

 protected:
  CallTrace() = default;
  ~CallTrace() = default;
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

}  // namespace detail
}  // namespace adjoint
