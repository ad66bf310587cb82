// A user's folders of sound files, and examples for training.
#pragma once

#include "common/sounds.h"

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vocoder {

using examples::can_read_sound;
using examples::fingerprint;
using examples::read_sound;
using examples::Sound;
using examples::write_sound;

/// The WAV, FLAC and OGG files below the folder that can be read and are not silent, with their channels mixed to one;
/// each skipped file is named, with the reason, in a line on standard error. Throws Error, naming the folder, if none
/// is left.
std::vector<Sound> read_sounds(const std::filesystem::path& folder, std::int64_t sample_rate);
/// Every eighth, at least one, is kept for tests: {training, tests}. Throws Error for fewer than two.
std::pair<std::vector<Sound>, std::vector<Sound>> split(std::vector<Sound> sounds);

/// Random pieces (samples), with equal probability for every place; shorter sounds have zeros around them. A gain
/// brings each piece's peak between 0.1 and 0.95.
class Pieces final : public adjoint::data::Dataset {
 public:
  Pieces(const std::vector<Sound>& sounds, std::int64_t samples, std::int64_t size);
  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;

 private:
  const std::vector<Sound>& sounds_;
  std::vector<std::int64_t> ends_;  // the sounds' ends in the concatenation of all
  std::int64_t samples_, size_;
};

/// An endless series of generated sounds (made_sounds.h).
class MadeSounds final : public adjoint::data::Dataset {
 public:
  MadeSounds(std::int64_t sample_rate, std::int64_t samples, std::int64_t size)
      : sample_rate_(sample_rate), samples_(samples), size_(size) {}
  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;

 private:
  std::int64_t sample_rate_, samples_, size_;
};

/// The generated sounds for tests: 12 of 1.5 seconds, voices first.
std::vector<Sound> made_tests(std::int64_t sample_rate);

}  // namespace vocoder
