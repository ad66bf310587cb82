// Mel spectrograms, which sound is synthesised from, and the distance between a sound and its synthesis.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace vocoder {

// HiFi-GAN's, at any sample rate; samples and bins.
inline constexpr std::int64_t kFft = 1024, kHop = 256, kMels = 80;
/// Zeros, or further sound, at both ends: the middle of frame t is that of its kHop samples.
inline constexpr std::int64_t kMargin = (kFft - kHop) / 2;

/// Throws Error unless it is from 4000 to 96000 Hz.
void check_sample_rate(std::int64_t sample_rate);

/// Sound (..., L + 2 kMargin), L a multiple of kHop, of which the mel spectrogram is that of the L in the middle:
/// (..., 80, L / 256). Amplitudes up to half the sample rate on Slaney's scale, each at least 1e-5, as logarithms.
adjoint::Tensor log_mel_inside(const adjoint::Tensor& sound, std::int64_t sample_rate);
/// Sound (..., L) -> (..., 80, ceil(L / 256)), with zeros around it.
adjoint::Tensor log_mel(const adjoint::Tensor& sound, std::int64_t sample_rate);
/// Frames of a sound of this length.
inline std::int64_t frames_of(std::int64_t samples) { return (samples + kHop - 1) / kHop; }

/// Sound (C, 256 frames) by 32 iterations, from log_mel's (C, 80, frames): the amplitudes are the non-negative ones
/// nearest to the mel spectrogram (100 multiplicative updates of Lee, Seung: "Algorithms for non-negative matrix
/// factorization", 2001), phases are Griffin and Lim's with the momentum 0.99 of Perraudin, Balazs, Sondergaard ("A
/// fast Griffin-Lim algorithm", 2013), from random ones that are always the same.
adjoint::Tensor griffin_lim(const adjoint::Tensor& log_mel, std::int64_t sample_rate);

/// multi_resolution_stft_loss of sounds (C, L), at least 2048 samples long: 0 if they are equal.
double stft_distance(const adjoint::Tensor& made, const adjoint::Tensor& original);
/// The mean of |difference| of log_mel's.
double mel_distance(const adjoint::Tensor& made, const adjoint::Tensor& original, std::int64_t sample_rate);

/// A picture (3, 257, columns), uint8, of the amplitudes of sound (L): time to the right, frequencies from 0 to half
/// the sample rate upwards, from black, 90 dB below a full-scale sine or less, to white, as loud as that.
adjoint::Tensor spectrogram_picture(const adjoint::Tensor& sound);

}  // namespace vocoder
