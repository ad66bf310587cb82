#include <adjoint/optim/sgd.h>

#include <adjoint/core/base/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

void SGDOptions::check() const {
  detail::check_not_negative(kName, {{"momentum", momentum}, {"weight_decay", weight_decay}});
  ADJOINT_CHECK(!nesterov || (momentum > 0.0 && dampening == 0.0),
                "SGD: nesterov needs a momentum above 0 and no dampening; got momentum {}, dampening {}", momentum,
                dampening);
}

std::vector<std::string> SGDOptions::state_names() const {
  if (momentum == 0.0) return {};
  return {"momentum_buffer"};
}

void SGD::update_batch(const Batch& batch) {
  const SGDOptions o = options(batch.group);
  const SGDAttr attr{o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov, static_cast<double>(batch.step)};
  if (o.momentum == 0.0) {
    optim::update<PlainSGD>(batch, attr);
  } else {
    optim::update<MomentumSGD>(batch, attr);
  }
}

}  // namespace adjoint::optim
