// The distance between a sound and its resynthesis from its mel spectrogram, and the synthesis's time.
#pragma once

#include "generator.h"
#include "sounds.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace vocoder {

/// stft_distance and mel_distance (mel.h).
struct Distances {
  double stft = 0.0, mel = 0.0;
};
/// Of sounds (C, L) of one shape, any length; sounds shorter than the longest window are padded with zeros.
Distances distances(const adjoint::Tensor& made, const adjoint::Tensor& original, std::int64_t sample_rate);

/// Sound (C, L) on any device -> the model's synthesis from its spectrogram, (C, L) on the CPU, in one piece.
adjoint::Tensor resynthesized(const Generator& model, const adjoint::Tensor& sound, adjoint::Device device);
/// The same by griffin_lim.
adjoint::Tensor by_griffin_lim(const adjoint::Tensor& sound, std::int64_t sample_rate, adjoint::Device device);

/// Of full scale, in dB: that of the largest sample and of the root of the mean square; and the share of samples that
/// are as large as a file can hold.
struct Level {
  double peak_db = 0.0, rms_db = 0.0, clipped = 0.0;
};
Level level_of(const adjoint::Tensor& sound);

/// Distances from a sound of the model's and of Griffin-Lim's synthesis from its spectrogram.
struct Measured {
  std::string name;
  Distances model, griffin_lim;
};
std::vector<Measured> measure(const Generator& model, const std::vector<Sound>& sounds, adjoint::Device device);
/// The mean of each number.
Measured mean_of(const std::vector<Measured>& all);

/// Seconds of computing for a second of sound: of the shortest of `runs` runs, after one that does not count.
double real_time_factor(const Generator& model, const adjoint::Tensor& sound, adjoint::Device device, int runs = 3);

}  // namespace vocoder
