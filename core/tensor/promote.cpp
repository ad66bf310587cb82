#include <adjoint/core/tensor/promote.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/convert.h>

namespace adjoint {
namespace {

// bool, integers, floating point.
int kind(DType dtype) { return dtype == kBool ? 0 : is_floating_point(dtype) ? 2 : 1; }

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (kind(a) != kind(b)) return kind(a) > kind(b) ? a : b;
  if (is_floating_point(a)) return {};
  return element_size(a) > element_size(b) ? a : b;
}

}  // namespace

std::optional<DType> promote(std::span<const Tensor> operands) {
  std::optional<DType> all, with_axes;
  for (const Tensor& operand : operands) {
    all = all.has_value() ? promote(*all, operand.dtype()) : operand.dtype();
    if (!all.has_value()) return {};
    if (operand.dim() > 0) with_axes = with_axes.has_value() ? promote(*with_axes, operand.dtype()) : operand.dtype();
  }
  const bool lesser = with_axes.has_value() && kind(*with_axes) == kind(*all);
  return lesser ? with_axes : all;
}

DType promote(DType dtype, const Scalar& scalar) { return kind(scalar.dtype()) > kind(dtype) ? scalar.dtype() : dtype; }

double fit_scalar(const char* op, const Scalar& value, DType dtype, const Shape& shape) {
  return visit(dtype, [&]<class T>() -> double {
    const auto fitted = [&](auto number) {
      if (!holds<T>(number)) [[unlikely]] {
        fail("{}: a scalar takes the tensor's dtype and must fit it{}; got {} for {} {}; use a dtype that holds it", op,
             is_floating_point(dtype) ? "" : " exactly", number, dtype, shape);
      }
      return convert<T>(number);
    };
    if (value.is_floating_point()) return static_cast<double>(fitted(static_cast<double>(value)));
    const T fitting = fitted(value.to<std::int64_t>());
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (fitting > kExactIntegers || fitting < -kExactIntegers) [[unlikely]] {
        fail("{}: an integer scalar must not be beyond 2^53; got {} for {} {}; use a tensor of it", op, fitting, dtype,
             shape);
      }
    }
    return static_cast<double>(fitting);
  });
}

}  // namespace adjoint
