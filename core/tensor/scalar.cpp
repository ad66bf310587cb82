#include <adjoint/core/tensor/scalar.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/convert.h>

#include <limits>
#include <ostream>

namespace adjoint {

void Scalar::check_fits(std::uint64_t value) {
  ADJOINT_CHECK(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
                "scalar: an integer must fit in int64; got {}; pass a double", value);
}

double Scalar::exact() const {
  const auto value = static_cast<double>(integer_);
  ADJOINT_CHECK(holds<std::int64_t>(value) && static_cast<std::int64_t>(value) == integer_,
                "scalar: float64 must hold the integer exactly; got {}; ask for to<std::int64_t>()", integer_);
  return value;
}

template <class T>
T Scalar::to() const {
  const auto converted = [](auto value) {
    ADJOINT_CHECK(holds<T>(value), "scalar: the type asked for must hold the value{}; got {} for {}; ask for another",
                  adjoint::is_floating_point(dtype_of<T>) ? "" : " exactly", value, dtype_of<T>);
    return convert<T>(value);
  };
  return is_floating_point() ? converted(real_) : converted(integer_);
}

#define ADJOINT_INSTANTIATE(T) template ADJOINT_API T Scalar::to<T>() const;
ADJOINT_INSTANTIATE(float16)
ADJOINT_INSTANTIATE(bfloat16)
ADJOINT_INSTANTIATE(float)
ADJOINT_INSTANTIATE(double)
ADJOINT_INSTANTIATE(std::int32_t)
ADJOINT_INSTANTIATE(std::int64_t)
ADJOINT_INSTANTIATE(std::uint8_t)
ADJOINT_INSTANTIATE(bool)
#undef ADJOINT_INSTANTIATE

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  if (value.is_bool()) return out << (value.to<bool>() ? "true" : "false");
  if (value.is_floating_point()) return out << static_cast<double>(value);
  return out << value.to<std::int64_t>();
}

}  // namespace adjoint
