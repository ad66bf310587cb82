// The table's optimisers: every OptimizerOf, and the updates of those of one rule.
#include <adjoint/optim/optimizers.h>

#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

#define ADJOINT_BASE(Name) template class OptimizerOf<Name##Options>;
#define ADJOINT_OPTIMIZER(Name, Rule)                                                                         \
  ADJOINT_BASE(Name)                                                                                          \
  void Name::update_batch(const Batch& batch) {                                                               \
    optim::update<Rule>(batch, Rule<float>::Attr::of(options(batch.group), static_cast<double>(batch.step))); \
  }
ADJOINT_OPTIMIZERS(ADJOINT_OPTIMIZER, ADJOINT_BASE)
#undef ADJOINT_OPTIMIZER
#undef ADJOINT_BASE

}  // namespace adjoint::optim
