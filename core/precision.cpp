#include <adjoint/core/precision.h>

namespace adjoint {
namespace {
thread_local Precision current = Precision::kFull;
}

void set_float32_precision(Precision precision) { current = precision; }
Precision float32_precision() { return current; }

}  // namespace adjoint
