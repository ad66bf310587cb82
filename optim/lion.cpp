#include <adjoint/optim/lion.h>

#include <adjoint/core/base/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

template class OptimizerOf<LionOptions>;

void LionOptions::check() const {
  for (const double beta : betas) {
    ADJOINT_CHECK(beta >= 0.0 && beta < 1.0, "Lion: betas must be in [0, 1); got {}, {}", betas[0], betas[1]);
  }
  ADJOINT_CHECK(weight_decay >= 0.0, "Lion: weight_decay must not be negative; got {}", weight_decay);
}

std::vector<std::string> LionOptions::state_names() const { return {"exp_avg"}; }

void Lion::update_batch(const Batch& batch) {
  const LionOptions o = options(batch.group);
  optim::update<LionRule>(batch, {o.lr, o.betas[0], o.betas[1], 1.0 - o.lr * o.weight_decay});
}

}  // namespace adjoint::optim
