// The update of a batch under a rule, by device: one pass over memory. Nothing is allocated, so a step that has begun
// also ends. Internal to optim.
#pragma once

#include <adjoint/optim/batch.h>
#include <adjoint/optim/optimizers.h>
#include <adjoint/optim/rules.h>

#include <cstring>

namespace adjoint::optim {

namespace cpu {
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr);
}  // namespace cpu

namespace cuda {
/// Runs on the device's current stream; one launch for up to 64 parameters. In a captured step the rule is read from
/// the device's memory.
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr);
}  // namespace cuda

/// Runs on the batch's device.
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  static_assert(sizeof attr <= kRuleBytes);
  if (batch.rule.host != nullptr && batch.gate) {
    std::memcpy(batch.rule.host, &attr, sizeof attr);
  } else if (batch.rule.host != nullptr) {
    visit_floating(state_dtype(batch.dtype), [&]<class T>() {
      if constexpr (!is_reduced_float<T>) {
        static_assert(sizeof(Rule<T>) <= kRuleBytes);
        const Rule<T> rule(attr);
        std::memcpy(batch.rule.host, &rule, sizeof rule);
      }
    });
  }
#if defined(ADJOINT_WITH_CUDA)
  if (batch.device.is_cuda()) return cuda::update<Rule>(batch, attr);
#endif
  cpu::update<Rule>(batch, attr);
}

}  // namespace adjoint::optim

#define ADJOINT_INSTANTIATE_UPDATE(Rule) template void update<Rule>(const Batch&, const Rule<float>::Attr&);
#define ADJOINT_INSTANTIATE_UPDATE_OF(Optimizer, Rule) ADJOINT_INSTANTIATE_UPDATE(Rule)
#define ADJOINT_NO_UPDATE(Optimizer)
// The rules of optimisers that have several, the rules of the table, and EMA's.
#define ADJOINT_INSTANTIATE_UPDATES                                    \
  ADJOINT_INSTANTIATE_UPDATE(PlainSGD)                                 \
  ADJOINT_INSTANTIATE_UPDATE(MomentumSGD)                              \
  ADJOINT_INSTANTIATE_UPDATE(PlainAdam)                                \
  ADJOINT_INSTANTIATE_UPDATE(Amsgrad)                                  \
  ADJOINT_INSTANTIATE_UPDATE(PlainRMSprop)                             \
  ADJOINT_INSTANTIATE_UPDATE(MomentumRMSprop)                          \
  ADJOINT_INSTANTIATE_UPDATE(CenteredRMSprop)                          \
  ADJOINT_INSTANTIATE_UPDATE(CenteredMomentumRMSprop)                  \
  ADJOINT_OPTIMIZERS(ADJOINT_INSTANTIATE_UPDATE_OF, ADJOINT_NO_UPDATE) \
  ADJOINT_INSTANTIATE_UPDATE(Average)
