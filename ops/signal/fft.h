// Discrete Fourier transforms of real sequences, along the last axis.
//
// There is no complex dtype: PyTorch's complex numbers are a last axis of 2 here, real and imaginary part, as in
// torch.view_as_real and torch.view_as_complex.
//
// cuFFT computes them on CUDA, on the current stream, and Eigen's FFT on the CPU, parallel over rows; n is at most
// 2^30. float16 and bfloat16 are computed in float32 and rounded once. Differentiable to any order. The device
// determines which elements of its row a NaN or an infinity reaches, and if an infinity becomes NaN.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// The scale of the two directions of a transform: the inverse by 1/n, both by 1/sqrt(n), or the forward one by 1/n.
enum class FFTNorm : std::uint8_t { kBackward, kOrtho, kForward };

/// x (..., L) -> (..., n / 2 + 1, 2): X[k] = sum over t of x[t] exp(-2 pi i k t / n); the other half are these bins'
/// conjugates. x is cut or padded with zeros at the end to n elements; 0 stands for L. Throws Error unless x is
/// floating point with at least one axis and n is positive.
ADJOINT_API Tensor rfft(const Tensor& x, std::int64_t n = 0, FFTNorm norm = FFTNorm::kBackward);

/// The inverse: x (..., K, 2) -> (..., n), where bins beyond n / 2 are cut and missing ones are zero; n = 0 means 2 (K
/// - 1). The imaginary parts of bin 0 and, for even n, of bin n / 2 count as zero, because a real sequence has none.
/// Throws Error unless x is floating point of that shape with at least one bin, and n is positive.
ADJOINT_API Tensor irfft(const Tensor& x, std::int64_t n = 0, FFTNorm norm = FFTNorm::kBackward);

/// rfft along the last axis, and a complex transform along the one before it: x (..., H, W) -> (..., h, w / 2 + 1, 2).
/// x is cut, or padded with zeros behind, to s = {h, w}. A 0 means x's extent, and an empty s both. Throws Error as
/// rfft does, for fewer than two axes and for an s of another length.
ADJOINT_API Tensor rfft2(const Tensor& x, const Dims& s = {}, FFTNorm norm = FFTNorm::kBackward);

/// The inverse: x (..., H, K, 2) -> (..., h, w), where a w of 0 means 2 (K - 1). Throws Error as irfft does, for fewer
/// than three axes and for an s of another length.
ADJOINT_API Tensor irfft2(const Tensor& x, const Dims& s = {}, FFTNorm norm = FFTNorm::kBackward);

}  // namespace adjoint
