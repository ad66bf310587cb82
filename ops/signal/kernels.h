// Signal processing by device. Operands are contiguous, float32 or float64; `out` is written completely.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <span>

namespace adjoint {

/// Throws Error unless x is defined and floating point.
void check_floating(const char* op, const Tensor& x);

/// A real transform of n elements, in either direction. `doubled`: bins that also represent their conjugates in the
/// other half count twice. With it, irfft is n times the inverse; without it, the adjoint of a plain rfft. In both
/// cases, each direction with one set of attributes is the other's adjoint.
struct FftAttr {
  std::int64_t n;
  double scale;
  bool doubled;

  std::int64_t bins() const { return n / 2 + 1; }
};

/// frames (rows, count, size) and the signals (rows, length) under them.
struct FrameAttr {
  std::int64_t size, hop, length;

  std::int64_t count() const { return 1 + (length - size) / hop; }
};

/// |z| of complex numbers, or its square.
struct MagnitudeAttr {
  bool squared;
};

}  // namespace adjoint

namespace adjoint::cpu {
/// in: (rows, n); out: (rows, bins, 2): scale sum of x[t] exp(-2 pi i k t / n), doubled or not.
void rfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr);
/// in: (rows, bins, 2); out: (rows, n): scale times the real part of the sum of X[k] exp(2 pi i k t / n), each doubled
/// or not.
void irfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr);
void overlap_add(std::span<const Tensor> in, Tensor& out, const FrameAttr& attr);
/// in: complex numbers (..., 2); out: (...).
void magnitudes(std::span<const Tensor> in, Tensor& out, const MagnitudeAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void rfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr);
void irfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr);
void overlap_add(std::span<const Tensor> in, Tensor& out, const FrameAttr& attr);
void magnitudes(std::span<const Tensor> in, Tensor& out, const MagnitudeAttr& attr);
/// to = from, for rows of the bins of n elements: complex numbers of `dtype`, multiplied by `shared` if they also
/// represent their conjugates, else made real and multiplied by `own`. `to` may be `from`.
void weigh_bins(DType dtype, const void* from, void* to, std::int64_t rows, std::int64_t n, double own, double shared,
                int device);
}  // namespace adjoint::cuda
