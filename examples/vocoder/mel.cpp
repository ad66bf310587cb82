#include "mel.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/signal/loss.h>
#include <adjoint/ops/signal/mel.h>
#include <adjoint/ops/signal/stft.h>
#include <adjoint/ops/signal/window.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace vocoder {
namespace {

using adjoint::Tensor;

constexpr double kFloor = 1e-5;  // the least amplitude whose logarithm is taken
constexpr adjoint::MelOptions kScale{.scale = adjoint::MelScale::kSlaney, .norm = adjoint::MelNorm::kSlaney};

/// Complex numbers (..., 2) of the same directions, 1 long.
Tensor directions(const Tensor& complex) {
  return complex / (adjoint::sqrt(adjoint::sum(adjoint::square(complex), {-1}, true)) + 1e-12);
}

/// Amplitudes (C, 513, frames).
Tensor amplitudes_of(const Tensor& mel, std::int64_t sample_rate) {
  const Tensor bank =
      adjoint::mel_filter_bank(kMels, kFft, static_cast<double>(sample_rate), kScale, {.device = mel.device()});
  const Tensor back = bank.transpose(0, 1), wanted = adjoint::matmul(back, mel);
  Tensor x = wanted;
  for (int i = 0; i < 100; ++i) x = x * (wanted / (adjoint::matmul(back, adjoint::matmul(bank, x)) + 1e-9));
  return x;
}

}  // namespace

void check_sample_rate(std::int64_t sample_rate) {
  if (sample_rate < 4000 || sample_rate > 96000)
    throw adjoint::Error(fmt::format("vocoder: the sample rate must be from 4000 to 96000 Hz; got {}", sample_rate));
}

Tensor log_mel_inside(const Tensor& sound, std::int64_t sample_rate) {
  const Tensor mel = adjoint::mel_spectrogram(sound, {.sample_rate = static_cast<double>(sample_rate),
                                                      .n_fft = kFft,
                                                      .n_mels = kMels,
                                                      .hop_length = kHop,
                                                      .center = false,
                                                      .power = 1.0,
                                                      .mel = kScale});
  return adjoint::log(adjoint::clamp_min(mel, kFloor));
}

Tensor log_mel(const Tensor& sound, std::int64_t sample_rate) {
  const std::int64_t behind = frames_of(sound.size(-1)) * kHop - sound.size(-1);
  return log_mel_inside(adjoint::pad(sound, {kMargin, kMargin + behind}), sample_rate);
}

Tensor griffin_lim(const Tensor& log_mel, std::int64_t sample_rate) {
  constexpr int kIterations = 32;
  constexpr double kMomentum = 0.99;
  const std::int64_t frames = log_mel.size(-1), half = kHop / 2;
  // The stft's frames are at multiples of the hop. With one more at each end, the first in the middle of the hop in
  // front of the sound, they are in the middle of the hops.
  const Tensor amplitudes =
      adjoint::pad(amplitudes_of(adjoint::exp(log_mel), sample_rate), {1, 1}, adjoint::PadMode::kReplicate)
          .unsqueeze(-1);
  adjoint::Generator generator(1984);
  Tensor angles = Tensor::empty(amplitudes.shape(), {.device = adjoint::kCPU});
  adjoint::fill_uniform(angles, 0.0, 2.0 * std::numbers::pi, generator);
  angles = adjoint::cat({adjoint::cos(angles), adjoint::sin(angles)}, -1).to(log_mel.device());
  const Tensor window = adjoint::hann_window(kFft, true, {.device = log_mel.device()});
  const auto sound_of = [&](const Tensor& phases) {
    return adjoint::istft(amplitudes * phases, kFft, {.hop_length = kHop, .window = window});
  };
  Tensor before;
  for (int i = 0; i < kIterations; ++i) {
    const Tensor now = adjoint::stft(sound_of(angles), kFft, {.hop_length = kHop, .window = window});
    angles = directions(before.defined() ? now - before * (kMomentum / (1.0 + kMomentum)) : now);
    before = now;
  }
  return sound_of(angles).narrow(-1, half, frames * kHop);
}

double stft_distance(const Tensor& made, const Tensor& original) {
  return adjoint::multi_resolution_stft_loss(made, original).item<double>();
}

double mel_distance(const Tensor& made, const Tensor& original, std::int64_t sample_rate) {
  return adjoint::l1_loss(log_mel(made, sample_rate), log_mel(original, sample_rate)).item<double>();
}

Tensor spectrogram_picture(const Tensor& sound) {
  constexpr std::int64_t kSize = 512, kStep = 128;
  constexpr double kRange = 90.0;  // dB
  // From black over violet and orange to white.
  struct Color {
    double r, g, b;
  };
  constexpr std::array<Color, 5> kColors{
      {{0.00, 0.00, 0.02}, {0.32, 0.07, 0.48}, {0.78, 0.23, 0.36}, {0.99, 0.65, 0.24}, {1.00, 1.00, 0.90}}};
  const std::int64_t missing = std::max<std::int64_t>(0, kSize - sound.size(-1));
  const Tensor levels = adjoint::spectrogram(adjoint::pad(sound.to(adjoint::kCPU), {0, missing}), kSize,
                                             {.hop_length = kStep, .pad_mode = adjoint::PadMode::kConstant, .power = 1})
                            .contiguous();
  const std::int64_t bins = levels.size(0), columns = levels.size(1);
  constexpr double kFullScale = kSize / 4.0;  // of a sine of amplitude 1 under Hann's window
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * bins * columns));
  const auto* in = levels.data<float>();
  for (std::int64_t y = 0; y < bins; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) {
      const double amplitude = static_cast<double>(in[(bins - 1 - y) * columns + x]) / kFullScale;
      const double level = std::clamp(1.0 + 20.0 * std::log10(amplitude + 1e-12) / kRange, 0.0, 1.0);
      const double place = level * static_cast<double>(kColors.size() - 1);
      const auto low = std::min(static_cast<std::size_t>(place), kColors.size() - 2);
      const double t = place - static_cast<double>(low);
      const Color &a = kColors[low], &b = kColors[low + 1];
      const std::array<double, 3> mixed{std::lerp(a.r, b.r, t), std::lerp(a.g, b.g, t), std::lerp(a.b, b.b, t)};
      for (std::size_t c = 0; c < 3; ++c) {
        pixels[c * static_cast<std::size_t>(bins * columns) + static_cast<std::size_t>(y * columns + x)] =
            static_cast<std::uint8_t>(std::lround(255.0 * mixed[c]));
      }
    }
  }
  return Tensor::from_vector(pixels, {3, bins, columns}, {.dtype = adjoint::kUInt8});
}

}  // namespace vocoder
