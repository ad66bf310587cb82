#include <adjoint/core/autograd/op.h>
#include <adjoint/ops/elementwise/activate.h>
#include <adjoint/ops/elementwise/onnx.h>
#include <adjoint/ops/elementwise/onnx_activation.h>

namespace adjoint {

OnnxValue activation_onnx(OnnxCall& call, OnnxValue x, const Activation& activation) {
  const elementwise::OnnxTerm term{&call, x, call.out[0].dtype()};
  switch (activation.kind) {
#define ADJOINT_CASE(Name, ...) \
  case ActivationKind::k##Name: \
    return elementwise::onnx_term<functor::Name>({&term, 1}, functor_attr<functor::Name<float>>(activation)).value;
    ADJOINT_ACTIVATIONS(ADJOINT_CASE, ADJOINT_CASE, ADJOINT_CASE)
#undef ADJOINT_CASE
    default: return x;
  }
}

}  // namespace adjoint
