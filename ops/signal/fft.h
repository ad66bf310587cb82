// Discrete Fourier transforms of real sequences, along the last axis.
//
// There is no complex dtype: where PyTorch has complex numbers, there is a last axis of 2, real and imaginary part, as
// torch.view_as_real gives and torch.view_as_complex takes.
//
// By cuFFT on CUDA, on the current stream, and Eigen's FFT on the CPU, parallel over rows; n is at most 2^30. float16
// and bfloat16 are computed in float32 and rounded once. Differentiable to any order. Which elements of its row a
// NaN or an infinity reaches, and whether an infinity comes out as NaN, depends on the device.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>

namespace adjoint {

/// What both directions of a transform are multiplied by: the inverse by 1/n, both by 1/sqrt(n), the forward one by
/// 1/n.
enum class FFTNorm : std::uint8_t { kBackward, kOrtho, kForward };

/// x (..., L) -> (..., n / 2 + 1, 2): X[k] = sum over t of x[t] exp(-2 pi i k t / n), the other half being these bins'
/// conjugates. x is cut or padded with zeros behind to n elements; 0 stands for L. Throws Error unless x is floating
/// point with an axis at least and n positive.
ADJOINT_API Tensor rfft(const Tensor& x, std::int64_t n = 0, FFTNorm norm = FFTNorm::kBackward);

/// The inverse: x (..., K, 2) -> (..., n), where bins beyond n / 2 are cut and missing ones are zero; n = 0 stands for
/// 2 (K - 1). The imaginary parts of bin 0 and, for even n, of bin n / 2 count as zero: a real sequence has none.
/// Throws Error unless x is floating point of that shape with a bin at least, and n positive.
ADJOINT_API Tensor irfft(const Tensor& x, std::int64_t n = 0, FFTNorm norm = FFTNorm::kBackward);

}  // namespace adjoint
