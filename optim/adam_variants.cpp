#include <adjoint/optim/adam_variants.h>

#include <adjoint/optim/adam_options.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

template class OptimizerOf<AdamaxOptions>;
template class OptimizerOf<NAdamOptions>;
template class OptimizerOf<RAdamOptions>;

void AdamaxOptions::check() const { check_adam_options(*this); }
std::vector<std::string> AdamaxOptions::state_names() const { return {"exp_avg", "exp_inf"}; }

void NAdamOptions::check() const {
  check_adam_options(*this);
  ADJOINT_CHECK(momentum_decay >= 0.0, "NAdam: momentum_decay must not be negative; got {}", momentum_decay);
}
std::vector<std::string> NAdamOptions::state_names() const { return {"exp_avg", "exp_avg_sq"}; }

void RAdamOptions::check() const { check_adam_options(*this); }
std::vector<std::string> RAdamOptions::state_names() const { return {"exp_avg", "exp_avg_sq"}; }

void Adamax::update_batch(const Batch& batch) {
  const AdamaxOptions o = options(batch.group);
  optim::update<AdamaxRule>(batch,
                            {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, static_cast<double>(batch.step)});
}

void NAdam::update_batch(const Batch& batch) {
  const NAdamOptions o = options(batch.group);
  optim::update<NAdamRule>(batch, {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, o.momentum_decay,
                                   static_cast<double>(batch.step)});
}

void RAdam::update_batch(const Batch& batch) {
  const RAdamOptions o = options(batch.group);
  optim::update<RAdamRule>(batch,
                           {o.lr, o.betas[0], o.betas[1], o.eps, o.weight_decay, static_cast<double>(batch.step)});
}

}  // namespace adjoint::optim
