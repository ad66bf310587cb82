// The common dtype of several operands, by PyTorch's rules, and numbers that are converted to a tensor's dtype.
// Internal to core and ops.
#pragma once

#include <adjoint/core/tensor/scalar.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <span>

namespace adjoint {

/// Up to this bound float64 represents every integer.
inline constexpr std::int64_t kExactIntegers = std::int64_t{1} << 53;

/// The operands' common dtype: bool is below integers, and integers are below floating point. Among integers the widest
/// wins, and operands without axes count only if no other has axes. Empty for two different floating-point dtypes.
ADJOINT_API std::optional<DType> promote(std::span<const Tensor> operands);
/// With a scalar, which changes the tensor's dtype only if it is of a higher kind: float32 for a real beside integers,
/// int64 for an integer beside bool.
ADJOINT_API DType promote(DType dtype, const Scalar& scalar);

/// `value` rounded to `dtype`, once. Throws Error, naming `op`, if the dtype cannot hold it (core/tensor/convert.h),
/// and for int64 and an integer beyond 2^53; `shape` appears in the message.
ADJOINT_API double fit_scalar(const char* op, const Scalar& value, DType dtype, const Shape& shape);

}  // namespace adjoint
