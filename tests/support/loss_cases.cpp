#include <adjoint/tests/support/loss_cases.h>

#include <adjoint/ops/loss/table.h>

namespace adjoint::testing {

const std::vector<LossCase>& loss_cases() {
  using T = const Tensor&;
  using R = Named<Reduction>;
#define ADJOINT_ROW(Kind, Functor, function, Module) {#function, function},
#define ADJOINT_ROW_XP(Kind, Functor, function, Module, parameter, ...)                    \
  {#function, [](T x, T y, R r) { return function(x, y, r, kLossParameter); }, #parameter, \
   [](T x, T y, double p) { return function(x, y, Reduction::kMean, p); }},
#define ADJOINT_ROW_PX(Kind, Functor, function, Module, parameter, ...)                    \
  {#function, [](T x, T y, R r) { return function(x, y, kLossParameter, r); }, #parameter, \
   [](T x, T y, double p) { return function(x, y, p); }},
  static const std::vector<LossCase> cases{ADJOINT_LOSSES(ADJOINT_ROW, ADJOINT_ROW_XP, ADJOINT_ROW_PX)};
#undef ADJOINT_ROW
#undef ADJOINT_ROW_XP
#undef ADJOINT_ROW_PX
  return cases;
}

}  // namespace adjoint::testing
