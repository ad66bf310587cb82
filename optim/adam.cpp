// You are at stop 6 of 7 of the README's reading path, an optimiser: this is Adam. rules.h comes next.
#include <adjoint/optim/adam.h>

#include <adjoint/optim/kernels.h>

namespace adjoint::optim {

namespace {

template <class Options>
void check_options(const Options& o) {
  detail::check_betas(Options::kName, o.betas);
  detail::check_not_negative(Options::kName, {{"eps", o.eps}, {"weight_decay", o.weight_decay}});
}

template <class Options>
std::vector<std::string> names_of_state(const Options& options) {
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (options.amsgrad) names.push_back("max_exp_avg_sq");
  return names;
}

template <class Options>
AdamAttr attributes(const Options& options, std::int64_t step) {
  return {.lr = options.lr,
          .beta1 = options.betas[0],
          .beta2 = options.betas[1],
          .eps = options.eps,
          .weight_decay = 0.0,
          .shrink = 1.0,
          .step = static_cast<double>(step)};
}

void run(const Batch& batch, const AdamAttr& attr, bool amsgrad) {
  if (amsgrad) {
    update<Amsgrad>(batch, attr);
  } else {
    update<PlainAdam>(batch, attr);
  }
}

}  // namespace

void AdamOptions::check() const { check_options(*this); }
std::vector<std::string> AdamOptions::state_names() const { return names_of_state(*this); }
void AdamWOptions::check() const { check_options(*this); }
std::vector<std::string> AdamWOptions::state_names() const { return names_of_state(*this); }

void Adam::update_batch(const Batch& batch) {
  const AdamOptions o = options(batch.group);
  AdamAttr attr = attributes(o, batch.step);
  attr.weight_decay = o.weight_decay;
  run(batch, attr, o.amsgrad);
}

void AdamW::update_batch(const Batch& batch) {
  const AdamWOptions o = options(batch.group);
  AdamAttr attr = attributes(o, batch.step);
  attr.shrink = 1.0 - o.lr * o.weight_decay;
  run(batch, attr, o.amsgrad);
}

}  // namespace adjoint::optim
