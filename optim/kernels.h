// The update of a batch under a rule, by device: one pass over memory. Nothing is allocated, so that what a step has
// begun it ends. Internal to optim.
#pragma once

#include <adjoint/optim/batch.h>
#include <adjoint/optim/rules.h>

namespace adjoint::optim {

namespace cpu {
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr);
}  // namespace cpu

namespace cuda {
/// On the device's current stream; one launch for up to 64 parameters.
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr);
}  // namespace cuda

/// On the batch's device.
template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
#if defined(ADJOINT_WITH_CUDA)
  if (batch.device.is_cuda()) return cuda::update<Rule>(batch, attr);
#endif
  cpu::update<Rule>(batch, attr);
}

}  // namespace adjoint::optim

#define ADJOINT_INSTANTIATE_UPDATES                                                \
  template void update<PlainSGD>(const Batch&, const SGDAttr&);                    \
  template void update<MomentumSGD>(const Batch&, const SGDAttr&);                 \
  template void update<PlainAdam>(const Batch&, const AdamAttr&);                  \
  template void update<Amsgrad>(const Batch&, const AdamAttr&);                    \
  template void update<PlainRMSprop>(const Batch&, const RMSpropAttr&);            \
  template void update<MomentumRMSprop>(const Batch&, const RMSpropAttr&);         \
  template void update<CenteredRMSprop>(const Batch&, const RMSpropAttr&);         \
  template void update<CenteredMomentumRMSprop>(const Batch&, const RMSpropAttr&); \
  template void update<LionRule>(const Batch&, const LionAttr&);                   \
  template void update<Average>(const Batch&, const AverageAttr&);
