#include "sounds.h"

#include "made_sounds.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#if VOCODER_WITH_AUDIO
#include <adjoint/data/audio/audio.h>
#endif

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vocoder {
namespace {

namespace data = adjoint::data;
namespace fs = std::filesystem;
using adjoint::Tensor;

constexpr float kSilence = 1e-4F;  // the largest sample of a silent sound
// The generated sounds for training have numbers from 2^32 on.
constexpr std::uint64_t kFirstTrained = std::uint64_t{1} << 32U;

float peak_of(const Tensor& samples) { return adjoint::abs(samples).max().item<float>(); }

}  // namespace

#if VOCODER_WITH_AUDIO

std::vector<Sound> read_sounds(const fs::path& folder, std::int64_t sample_rate) {
  const std::vector<fs::path> paths = data::AudioFolder(folder).paths();
  std::vector<Sound> sounds(paths.size());
  std::vector<std::string> reasons(paths.size());
  adjoint::parallel_for(std::ssize(paths), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      Sound sound = read_sound(paths[at], sample_rate);
      sound.samples = sound.samples.mean({0}, true);
      if (peak_of(sound.samples) < kSilence) reasons[at] = fmt::format("'{}' is silent", paths[at].string());
      sounds[at] = std::move(sound);
    } catch (const adjoint::OutOfMemoryError&) {
      throw;
    } catch (const adjoint::Error& error) {
      reasons[at] = error.what();
    }
  });
  std::vector<Sound> found;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (reasons[i].empty())
      found.push_back(std::move(sounds[i]));
    else
      fmt::print(stderr, "vocoder: passed over: {}\n", reasons[i]);
  }
  if (found.empty()) {
    throw adjoint::Error(fmt::format("vocoder: '{}' holds no WAV, FLAC or OGG file that can be read and is not silent",
                                     folder.string()));
  }
  return found;
}

#else

std::vector<Sound> read_sounds(const fs::path& folder, std::int64_t sample_rate) {
  return {read_sound(folder, sample_rate)};  // throws
}

#endif

std::pair<std::vector<Sound>, std::vector<Sound>> split(std::vector<Sound> sounds) {
  constexpr std::size_t kEvery = 8;
  const std::size_t count = sounds.size();
  if (count < 2) {
    throw adjoint::Error(
        fmt::format("vocoder: --sounds must hold at least 2 sounds, one of them to test on, or --tests others; got {}",
                    count));
  }
  std::pair<std::vector<Sound>, std::vector<Sound>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const bool tested = i % kEvery == kEvery / 2 || (count <= kEvery / 2 && i + 1 == count);
    (tested ? parts.second : parts.first).push_back(std::move(sounds[i]));
  }
  return parts;
}

Pieces::Pieces(const std::vector<Sound>& sounds, std::int64_t samples, std::int64_t size)
    : sounds_(sounds), samples_(samples), size_(size) {
  std::int64_t end = 0;
  for (const Sound& sound : sounds) ends_.push_back(end += sound.samples.size(-1));
}

data::Example Pieces::get(std::int64_t, adjoint::Generator& generator) const {
  Tensor piece = Tensor::zeros({samples_});
  const auto anywhere = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(ends_.back())));
  const auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), anywhere) - ends_.begin());
  const Tensor whole = sounds_[at].samples[0];
  const std::int64_t length = whole.size(0), held = std::min(length, samples_);
  const auto spare = static_cast<std::uint64_t>(std::abs(length - samples_));
  const auto place = static_cast<std::int64_t>(generator.below(spare + 1));
  piece.narrow(0, length < samples_ ? place : 0, held).copy_(whole.narrow(0, length < samples_ ? 0 : place, held));
  const float peak = peak_of(piece);
  const double wanted = 0.1 * std::pow(9.5, generator.uniform());
  if (peak >= kSilence) piece.mul_(wanted / static_cast<double>(peak));
  return {piece, {}};
}

data::Example MadeSounds::get(std::int64_t, adjoint::Generator& generator) const {
  return {made_sound(kFirstTrained + generator.next() % kFirstTrained, samples_, sample_rate_), {}};
}

std::vector<Sound> made_tests(std::int64_t sample_rate) {
  constexpr std::uint64_t kEach = 6;
  std::vector<Sound> tests;
  for (const std::uint64_t music : {0U, 1U}) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      tests.push_back({fmt::format("{} {}", music == 0 ? "voice" : "music", i),
                       made_sound(2 * i + music, sample_rate * 3 / 2, sample_rate).unsqueeze(0)});
    }
  }
  return tests;
}

}  // namespace vocoder
