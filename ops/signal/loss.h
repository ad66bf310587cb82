// Losses that compare sounds by their spectrograms.
//
// input and target (..., L), of one shape, floating-point dtype and device; the result is a scalar. Differentiable in
// both, to any order; float16 and bfloat16 are computed in float32 and rounded once. Throws Error for operands that
// differ.
#pragma once

#include <adjoint/ops/signal/mel.h>

#include <cstdint>
#include <vector>

namespace adjoint {

struct StftResolution {
  std::int64_t n_fft, hop_length, win_length;
};

struct MultiResolutionStftOptions {
  std::vector<StftResolution> resolutions = {{1024, 120, 600}, {2048, 240, 1200}, {512, 50, 240}};
  /// The factors of the two terms.
  double spectral_convergence = 1.0, log_magnitude = 1.0;
  /// The lower bound of a squared magnitude: smaller values count as this, without a gradient.
  double floor = 1e-7;
};

/// The mean over resolutions of |M(target) - M(input)| / |M(target)|, in Frobenius norms over the whole batch, plus the
/// mean of |log M(target) - log M(input)|, where M is the magnitude of the stft with a periodic Hann window (Yamamoto,
/// Song, Kim: "Parallel WaveGAN", 2020, whose resolutions are the default). Throws Error without a resolution, and as
/// stft does.
ADJOINT_API Tensor multi_resolution_stft_loss(const Tensor& input, const Tensor& target,
                                              const MultiResolutionStftOptions& options = {});

struct MelLossOptions {
  /// The options of HiFi-GAN (Kong, Kim, Bae, 2020), at 22.05 kHz.
  MelSpectrogramOptions spectrogram = {.sample_rate = 22050.0,
                                       .n_fft = 1024,
                                       .n_mels = 80,
                                       .hop_length = 256,
                                       .power = 1.0,
                                       .mel = {.scale = MelScale::kSlaney, .norm = MelNorm::kSlaney}};
  /// The lower bound of values before the logarithm: smaller values count as this, without a gradient.
  double floor = 1e-5;
};

/// The mean of |log S(input) - log S(target)|, where S is mel_spectrogram. Throws Error as mel_spectrogram does.
ADJOINT_API Tensor mel_loss(const Tensor& input, const Tensor& target, const MelLossOptions& options = {});

}  // namespace adjoint
