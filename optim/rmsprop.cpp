#include <adjoint/optim/rmsprop.h>

#include <adjoint/core/base/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

void RMSpropOptions::check() const {
  ADJOINT_CHECK(alpha >= 0.0 && alpha < 1.0, "RMSprop: alpha must be in [0, 1); got {}", alpha);
  detail::check_not_negative(kName, {{"eps", eps}, {"weight_decay", weight_decay}, {"momentum", momentum}});
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
