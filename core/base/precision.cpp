#include <adjoint/core/base/precision.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>

namespace adjoint {

void set_float32_precision(Precision precision) {
  check_enumerator("set_float32_precision", "Precision", precision, Precision::kTF32);
  detail::context().float32_precision = precision;
}
Precision float32_precision() { return detail::context().float32_precision; }

}  // namespace adjoint
