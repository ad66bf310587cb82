#include <adjoint/core/base/precision.h>

#include <adjoint/core/base/check.h>

namespace adjoint {
namespace {
thread_local Precision current_precision = Precision::kFull;
}

void set_float32_precision(Precision precision) {
  check_enumerator("set_float32_precision", "Precision", precision, Precision::kTF32);
  current_precision = precision;
}
Precision float32_precision() { return current_precision; }

}  // namespace adjoint
