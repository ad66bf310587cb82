#include <adjoint/core/precision.h>

#include <adjoint/core/check.h>

namespace adjoint {
namespace {
thread_local Precision current = Precision::kFull;
}

void set_float32_precision(Precision precision) {
  check_enumerator("set_float32_precision", "Precision", precision, Precision::kTF32);
  current = precision;
}
Precision float32_precision() { return current; }

}  // namespace adjoint
