#include <adjoint/optim/sgd.h>

#include <adjoint/core/check.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim {
namespace {

std::vector<std::string> state_names(const SGDOptions& options) {
  if (options.momentum == 0.0) return {};
  return {"momentum_buffer"};
}

}  // namespace

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : Optimizer("SGD", std::move(parameters), options.lr, state_names(options)), options_(options) {
  ADJOINT_CHECK(options.momentum >= 0.0, "SGD: momentum must not be negative; got {}", options.momentum);
  ADJOINT_CHECK(options.weight_decay >= 0.0, "SGD: weight_decay must not be negative; got {}", options.weight_decay);
  ADJOINT_CHECK(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
                "SGD: nesterov needs a momentum above 0 and no dampening; got momentum {}, dampening {}",
                options.momentum, options.dampening);
}

void SGD::update_batch(const Batch& batch) {
  const SGDAttr attr{lr(),           options_.momentum, options_.dampening, options_.weight_decay, options_.nesterov,
                     batch.step == 1};
  if (options_.momentum == 0.0) {
    optim::update<PlainSGD>(batch, attr);
  } else {
    optim::update<MomentumSGD>(batch, attr);
  }
}

}  // namespace adjoint::optim
