// Applies a trained model: measures how well it predicts a text, and lets it write. The model is in eval mode, on
// `device`.
#pragma once

#include "gpt.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string>

namespace text {

/// Bits per byte that the model needs for a text (L), uint8, on the CPU: the mean of -log2 of the probability of each
/// byte, given at least half a context of bytes before it (at the beginning, all there are). The first byte counts as 8
/// bits. Throws Error for an empty text.
double bits_per_byte(const Gpt& model, const adjoint::Tensor& text, adjoint::Device device);

struct SampleOptions {
  /// Bytes to write behind the prompt.
  std::int64_t length = 500;
  /// Scores are divided by it; 0: always the likeliest byte.
  double temperature = 0.8;
  /// Only that many likeliest bytes are written; 0: all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;

  /// Throws Error for a value out of range.
  void check() const;
};

/// The prompt and the bytes that the model writes behind it, which the seed decides. Draws from no default generator.
/// When the context is full, the model continues from its last half. Throws Error for an empty prompt, and for options
/// out of range.
std::string sample(const Gpt& model, const std::string& prompt, const SampleOptions& options, adjoint::Device device);

}  // namespace text
