// Sound in chunks: a generator whose convolutions are nn/streaming.h's, and the mel spectrograms that it reads.
//
//   StreamingVocoder vocoder(model);
//   for (const Tensor& chunk : chunks) play(vocoder(chunk));
//   play(vocoder(last_chunk, true));
//
// The chunks that come out, one after the other, equal the model's result for the whole, up to rounding. With `last`, a
// call ends the sequence: the rest comes out, and another sequence may begin.
#pragma once

#include "generator.h"

#include <adjoint/nn/streaming.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace vocoder {

/// Holds back its input until others have caught up: a queue along the last axis.
class Delay {
 public:
  void push(const adjoint::Tensor& chunk);
  /// The next `length` elements of the input so far.
  adjoint::Tensor take(std::int64_t length);
  /// The number of elements that have come and were not taken.
  std::int64_t held() const { return kept_.defined() ? kept_.size(-1) : 0; }

 private:
  adjoint::Tensor kept_;
};

class StreamingResBlock {
 public:
  explicit StreamingResBlock(const ResBlock& block);
  adjoint::Tensor operator()(const adjoint::Tensor& chunk, bool last);
  std::int64_t latency() const;

 private:
  struct Step {
    adjoint::nn::StreamingConv1d first;
    std::optional<adjoint::nn::StreamingConv1d> second;
    Delay inputs = {};
  };
  std::vector<Step> steps_;
};

class StreamingGenerator {
 public:
  explicit StreamingGenerator(const Generator& model);
  /// Logarithms of mel spectrograms (N, 80, any number of frames) -> sound (N, 1, samples).
  adjoint::Tensor operator()(const adjoint::Tensor& mel, bool last = false);
  /// When n frames have come, 256 n - latency() samples have, if that is positive.
  std::int64_t latency() const;

 private:
  struct Stage {
    adjoint::nn::StreamingConvTranspose1d up;
    std::int64_t rate;
    std::vector<StreamingResBlock> blocks;
    std::vector<Delay> outputs = {};  // of the blocks, which are not equally late
  };
  Generator model_;
  adjoint::nn::StreamingConv1d conv_pre_;
  std::vector<Stage> stages_;
  adjoint::nn::StreamingConv1d conv_post_;
  std::int64_t frames_ = 0;  // that have come
};

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
  Delay sound_;
};

/// Sound through the spectrogram and back: the basis for synthesising files and streams.
class StreamingVocoder {
 public:
  explicit StreamingVocoder(const Generator& model) : mel_(model.options().sample_rate), generator_(model) {}
  /// Sound (C, any number of samples), each channel on its own, on the model's device -> (C, samples), in all as many
  /// as have come.
  adjoint::Tensor operator()(const adjoint::Tensor& chunk, bool last = false);
  /// When n samples have come, at least n - latency() have gone out.
  std::int64_t latency() const { return StreamingMel::latency() + generator_.latency(); }

 private:
  StreamingMel mel_;
  StreamingGenerator generator_;
  std::int64_t seen_ = 0, made_ = 0;
};

/// Sound (C, L) on any device -> (C, L) on the CPU. The model's device computes `chunk` samples at once, so memory does
/// not grow with L.
adjoint::Tensor synthesize(const Generator& model, const adjoint::Tensor& sound, adjoint::Device device,
                           std::int64_t chunk = std::int64_t{1} << 18);

}  // namespace vocoder
