#include <adjoint/optim/rmsprop.h>

#include <adjoint/core/base/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

template class OptimizerOf<RMSpropOptions>;

void RMSpropOptions::check() const {
  ADJOINT_CHECK(alpha >= 0.0 && alpha < 1.0, "RMSprop: alpha must be in [0, 1); got {}", alpha);
  ADJOINT_CHECK(eps >= 0.0, "RMSprop: eps must not be negative; got {}", eps);
  ADJOINT_CHECK(weight_decay >= 0.0, "RMSprop: weight_decay must not be negative; got {}", weight_decay);
  ADJOINT_CHECK(momentum >= 0.0, "RMSprop: momentum must not be negative; got {}", momentum);
}

std::vector<std::string> RMSpropOptions::state_names() const {
  std::vector<std::string> names{"square_avg"};
  if (centered) names.push_back("grad_avg");
  if (momentum != 0.0) names.push_back("momentum_buffer");
  return names;
}

void RMSprop::update_batch(const Batch& batch) {
  const RMSpropOptions o = options(batch.group);
  const RMSpropAttr attr{o.lr, o.alpha, o.eps, o.weight_decay, o.momentum};
  if (o.centered) {
    o.momentum == 0.0 ? optim::update<CenteredRMSprop>(batch, attr)
                      : optim::update<CenteredMomentumRMSprop>(batch, attr);
  } else {
    o.momentum == 0.0 ? optim::update<PlainRMSprop>(batch, attr) : optim::update<MomentumRMSprop>(batch, attr);
  }
}

}  // namespace adjoint::optim
