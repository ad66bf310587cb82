// Shared by spectrograms and losses: spectra one frame after the other, and their magnitudes. Internal.
#pragma once

#include <adjoint/ops/signal/stft.h>

namespace adjoint {

/// x (..., L), float32 or float64 -> (..., frames, n_fft / 2 + 1, 2), contiguous: the one-sided stft before its axes
/// are swapped. Throws Error, naming `op`, as stft does.
Tensor spectra(const char* op, const Tensor& x, std::int64_t n_fft, const StftOptions& options);

/// Contiguous (..., 2) -> (...), or their squares. The gradient is 0 at 0.
Tensor magnitudes(const Tensor& spectra, bool squared);

}  // namespace adjoint
