// Sound in chunks: the generator in nn::Streaming, and the mel spectrograms that it reads.
//
//   StreamingVocoder vocoder(model);
//   for (const Tensor& chunk : chunks) play(vocoder(chunk));
//   play(vocoder(last_chunk, true));
//
// The chunks that come out, one after the other, equal the model's result for the whole, up to rounding. With `last`, a
// call ends the sequence: the rest comes out, and another sequence may begin.
#pragma once

#include "generator.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/streaming.h>

#include <cstdint>

namespace vocoder {

/// log_mel in chunks.
class StreamingMel {
 public:
  explicit StreamingMel(std::int64_t sample_rate) : sample_rate_(sample_rate) {}
  /// Sound (C, any number of samples) -> (C, 80, frames).
  adjoint::Tensor operator()(const adjoint::Tensor& chunk, bool last = false);
  /// When n samples have come, 256 frames of at least n - latency() have.
  static std::int64_t latency();

 private:
  std::int64_t sample_rate_, seen_ = 0;
  adjoint::Tensor kept_;  // the samples that the next frames read
};

/// Sound through the spectrogram and back, on the CPU.
class StreamingVocoder {
 public:
  /// For sound of that many channels. The generator computes up to `frames` frames at once.
  explicit StreamingVocoder(const Generator& model, std::int64_t channels = 1, std::int64_t frames = 1);
  /// Sound (C, any number of samples), each channel on its own -> (C, samples), in all as many as have come.
  adjoint::Tensor operator()(const adjoint::Tensor& chunk, bool last = false);
  /// When n samples have come, at least n - latency() have gone out.
  std::int64_t latency() const { return StreamingMel::latency() + stream_.latency(); }

 private:
  Generator model_;
  StreamingMel mel_;
  std::int64_t block_;
  adjoint::nn::Streaming stream_;
  std::int64_t seen_ = 0, made_ = 0, frames_ = 0;
  std::int64_t early_;  // outputs of the stream that still come before the sound
};

/// Sound (C, L) -> (C, L) on the CPU. The model's device computes `chunk` samples at once, with the frames around them
/// that they depend on, so memory does not grow with L.
adjoint::Tensor synthesize(const Generator& model, const adjoint::Tensor& sound, adjoint::Device device,
                           std::int64_t chunk = std::int64_t{1} << 18);

}  // namespace vocoder
