#include <adjoint/ops/elementwise/onnx.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace adjoint::elementwise {
namespace {

// ONNX Runtime divides integers by 0 and ends.
OnnxTerm safe_divisor(const OnnxTerm& b) { return b.is_integer() ? where(b == 0.0, b.number(1.0), b) : b; }

}  // namespace

OnnxTerm OnnxTerm::node(const char* type, std::initializer_list<OnnxTerm> others,
                        const OnnxAttributes& attributes) const {
  std::vector<OnnxValue> inputs{value};
  for (const OnnxTerm& other : others) inputs.push_back(other.value);
  return {call, call->add_node(type, inputs, attributes, 1).front(), dtype};
}

OnnxTerm where(const OnnxTerm& condition, const OnnxTerm& a, const OnnxTerm& b) {
  return {a.call, a.call->add("Where", {condition.value, a.value, b.value}), a.dtype};
}

OnnxTerm clip(const OnnxTerm& x, double low, double high) {
  const auto bound = [&](double number) {
    return std::isinf(number) ? OnnxTerm{x.call, {}, x.dtype} : x.number(number);
  };
  return x.node("Clip", {bound(low), bound(high)});
}

OnnxTerm rest_of_trunc(const OnnxTerm& a, const OnnxTerm& b) {
  return a.node("Mod", {safe_divisor(b)}, {{"fmod", true}});
}

OnnxTerm rest_of_floor(const OnnxTerm& a, const OnnxTerm& b) {
  if (a.is_integer()) return a.node("Mod", {safe_divisor(b)});
  const OnnxTerm rest = rest_of_trunc(a, b);
  return where(rest.node("Sign") * b.node("Sign") < 0.0, rest + b, rest);
}

OnnxTerm angle(const OnnxTerm& y, const OnnxTerm& x) {
  // The reciprocal of -0 is -infinity, and that of -infinity is -0.
  const auto is_negative = [](const OnnxTerm& a) { return a + a.node("Reciprocal") < 0.0; };
  // Two zeros or two infinities have no quotient.
  const OnnxTerm slope = where(abs(x) == abs(y), x.node("Sign") * y.node("Sign"), y / x), near = slope.node("Atan");
  const OnnxTerm half_turn = where(is_negative(y), y.number(-std::numbers::pi), y.number(std::numbers::pi));
  return where(is_negative(x), near + half_turn, near);
}

OnnxOperands::OnnxOperands(OnnxCall& call, functor::OnnxTypes types) : given_(call.in.back().dtype()) {
  using enum functor::OnnxTypes;
  const bool widened = types == kNumbers && (given_ == kBool || given_ == kUInt8);
  const DType dtype = types == kTruth ? kBool : widened ? kInt32 : given_;
  for (const OnnxValue operand : call.broadcast_operands()) {
    const bool cast = types != kAll && given_ != dtype;
    terms_.push_back({&call, cast ? call.cast(operand, dtype) : operand, dtype});
  }
}

OnnxValue OnnxOperands::cast_back(const OnnxTerm& result, bool is_predicate) const {
  const bool widened = terms_.front().dtype == kInt32 && given_ != kInt32;
  return widened && !is_predicate ? result.call->cast(result.value, given_) : result.value;
}

OnnxTerm onnx_node(const char* type, std::span<const OnnxTerm> x, std::span<const double> numbers, bool reversed) {
  std::vector<OnnxValue> inputs;
  for (const OnnxTerm& operand : x) inputs.push_back(operand.value);
  for (const double number : numbers) inputs.push_back(x[0].number(number).value);
  if (reversed) std::reverse(inputs.begin(), inputs.end());
  return {x[0].call, x[0].call->add_node(type, inputs, {}, 1).front(), x[0].dtype};
}

}  // namespace adjoint::elementwise
