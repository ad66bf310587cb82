#include <adjoint/core/scalar.h>

#include <adjoint/core/check.h>
#include <adjoint/core/convert.h>

namespace adjoint {

double fit_scalar(const char* op, double value, DType dtype, const Shape& shape) {
  return visit(dtype, [&]<class T>() -> double {
    if (!holds<T>(value)) [[unlikely]] {
      fail("{}: a scalar takes the tensor's dtype and must fit it{}; got {} for {} {}; use a dtype that holds it", op,
           is_floating_point(dtype) ? "" : " exactly", value, dtype, shape);
    }
    return static_cast<double>(convert<T>(value));
  });
}

}  // namespace adjoint
