#include <adjoint/ops/elementwise/onnx.h>
#include <adjoint/ops/elementwise/onnx_activation.h>

namespace adjoint {
namespace {

#define ADJOINT_FORMULA(Name, function, ...) &elementwise::onnx_formula(#function),
constexpr const elementwise::OnnxFormula* kFormulas[] = {nullptr,  // no activation
                                                         ADJOINT_ACTIVATIONS(ADJOINT_FORMULA, ADJOINT_FORMULA,
                                                                             ADJOINT_FORMULA)};
#undef ADJOINT_FORMULA

}  // namespace

OnnxValue activation_onnx(OnnxCall& call, OnnxValue x, const Activation& activation) {
  if (activation.is_none()) return x;
  const elementwise::OnnxFormula& formula = *kFormulas[static_cast<std::size_t>(activation.kind)];
  const elementwise::OnnxTerm term{&call, x, call.out[0].dtype()};
  return (formula.formula == nullptr ? term.node(formula.type) : formula.formula({term}, activation.parameters)).value;
}

}  // namespace adjoint
