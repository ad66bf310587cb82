#include <adjoint/ops/conv/base/machine.h>

namespace adjoint::cuda {
namespace {

thread_local int multiprocessors = static_cast<int>(kMultiprocessors);

}  // namespace

PlanForMultiprocessors::PlanForMultiprocessors(int count) : before_(multiprocessors) { multiprocessors = count; }
PlanForMultiprocessors::~PlanForMultiprocessors() { multiprocessors = before_; }
int planned_multiprocessors() { return multiprocessors; }

}  // namespace adjoint::cuda
