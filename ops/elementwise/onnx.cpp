#include <adjoint/ops/elementwise/onnx.h>

#include <algorithm>
#include <cmath>

namespace adjoint::elementwise {

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

OnnxValue translate(OnnxCall& call, const OnnxFormula& formula, std::span<const double> numbers,
                    const OnnxSignature& signature) {
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
