// The rounding that float32 matrix products and convolutions may use on the GPU.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstdint>

namespace adjoint {

enum class Precision : std::uint8_t {
  kFull,  ///< float32's accuracy. The default.
  kTF32,  ///< Operands rounded to 10 bits of fraction, float32 sums: faster if the GPU supports it. CPUs ignore it.
};

/// For this thread. New threads start with kFull.
ADJOINT_API void set_float32_precision(Precision precision);
ADJOINT_API Precision float32_precision();

/// Sets the precision of this thread while it lives.
class PrecisionGuard {
 public:
  explicit PrecisionGuard(Precision precision) : before_(float32_precision()) { set_float32_precision(precision); }
  ~PrecisionGuard() { set_float32_precision(before_); }
  PrecisionGuard(const PrecisionGuard&) = delete;
  PrecisionGuard& operator=(const PrecisionGuard&) = delete;

 private:
  Precision before_;
};

}  // namespace adjoint
