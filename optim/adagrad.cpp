#include <adjoint/optim/adagrad.h>

#include <adjoint/core/base/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

template class OptimizerOf<AdagradOptions>;

void AdagradOptions::check() const {
  ADJOINT_CHECK(lr_decay >= 0.0, "Adagrad: lr_decay must not be negative; got {}", lr_decay);
  ADJOINT_CHECK(weight_decay >= 0.0, "Adagrad: weight_decay must not be negative; got {}", weight_decay);
  ADJOINT_CHECK(initial_accumulator_value >= 0.0, "Adagrad: initial_accumulator_value must not be negative; got {}",
                initial_accumulator_value);
  ADJOINT_CHECK(eps >= 0.0, "Adagrad: eps must not be negative; got {}", eps);
}

std::vector<std::string> AdagradOptions::state_names() const { return {"sum"}; }

void Adagrad::update_batch(const Batch& batch) {
  const AdagradOptions o = options(batch.group);
  optim::update<AdagradRule>(batch, {o.lr, o.lr_decay, o.weight_decay, o.initial_accumulator_value, o.eps,
                                     static_cast<double>(batch.step)});
}

}  // namespace adjoint::optim
