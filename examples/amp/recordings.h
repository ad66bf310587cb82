// Sound and the same sound through the amplifier: a user's two files, or made ones; and pieces of them for training.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <string>

namespace amp {

/// What goes in, and what comes out: (samples) each, float32.
struct Recording {
  adjoint::Tensor input, target;
};

struct Recordings {
  Recording training, tests;

  /// Of a number of seconds for training, and others for tests. Throws Error unless there are `least` samples for
  /// training.
  static Recordings made(std::int64_t seconds, std::int64_t sample_rate, std::int64_t least);
  /// Of two files, mixed to one channel at this rate; the last tenth is for tests, of at most `most` samples. Throws
  /// Error, naming the file, for one that cannot be read, for files of different length, if the target is silent, and
  /// unless there are `least` samples for training and as many for tests.
  static Recordings of(const std::string& input, const std::string& target, std::int64_t sample_rate,
                       std::int64_t least, std::int64_t most);
  /// FNV-1a of all samples.
  std::uint64_t fingerprint() const;
};

/// Random pieces (1, samples), input and target, with equal probability for every place. The recording must be at least
/// as long.
class Pieces final : public adjoint::data::Dataset {
 public:
  Pieces(const Recording& recording, std::int64_t samples, std::int64_t size)
      : recording_(recording), samples_(samples), size_(size) {}
  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;

 private:
  Recording recording_;
  std::int64_t samples_, size_;
};

}  // namespace amp
