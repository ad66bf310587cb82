#include <adjoint/ops/elementwise/onnx.h>

#include <algorithm>
#include <cmath>

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

OnnxValue translate(OnnxCall& call, const OnnxFormula& formula, std::span<const double> numbers,
                    const OnnxSignature& signature) {
  if (formula.neutral && numbers.size() == 1 && numbers[0] == *formula.neutral && !signature.scalar_first) {
    return call.operand(0);
  }
  const DType given = call.in.back().dtype();
  const bool widened = formula.types == OnnxTypes::kNumbers && (given == kBool || given == kUInt8);
  const DType dtype = formula.types == OnnxTypes::kTruth ? kBool : widened ? kInt32 : given;
  OnnxFormula::Terms terms;
  for (const OnnxValue operand : call.broadcast_operands()) {
    const bool cast = formula.types != OnnxTypes::kAll && given != dtype;
    terms.push_back({&call, cast ? call.cast(operand, dtype) : operand, dtype});
  }
  OnnxTerm result = terms.front();
  if (formula.formula != nullptr) {
    result = formula.formula(terms, numbers);
  } else {
    std::vector<OnnxValue> inputs;
    for (const OnnxTerm& term : terms) inputs.push_back(term.value);
    for (const double number : numbers) inputs.push_back(call.number(number, dtype));
    if (signature.scalar_first) std::reverse(inputs.begin(), inputs.end());
    result.value = call.add_node(formula.type, inputs, {}, 1).front();
  }
  return widened && !signature.is_predicate ? call.cast(result.value, given) : result.value;
}

}  // namespace adjoint::elementwise
