// A model of an amplifier or another distortion: causal convolutions with dilations 1, 2, 4, ..., 512, each with a
// residual, and the sum of their outputs (van den Oord et al.: "WaveNet: a generative model for raw audio", 2016).
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_list.h>

#include <cstdint>
#include <filesystem>

namespace amp {

struct AmpOptions {
  std::int64_t channels = 16;
  /// Dilated convolutions; the dilation returns to 1 after every tenth.
  std::int64_t layers = 20;
  /// Hz, of the sound that it was trained on.
  std::int64_t sample_rate = 48000;

  /// The number of samples before a sample that its result depends on.
  std::int64_t context() const;
};

class Amp : public adjoint::nn::Module {
 public:
  static constexpr std::int64_t kKernel = 3;

  /// Throws Error for options out of range.
  explicit Amp(const AmpOptions& options);
  /// Sound (N, 1, L) -> (N, 1, L). A sample of the result depends on no later sample.
  adjoint::Tensor operator()(const adjoint::Tensor& sound) const;

  const AmpOptions& options() const { return options_; }
  static std::int64_t dilation(std::int64_t layer) { return std::int64_t{1} << (layer % 10); }
  std::int64_t context() const { return options_.context(); }

 private:
  AmpOptions options_;

 public:
  using Convs = adjoint::nn::ModuleList<adjoint::nn::Conv1d>;
  adjoint::nn::Child<adjoint::nn::Conv1d> input =
      register_module("input", adjoint::nn::Conv1d(1, options_.channels, {.kernel_size = 1}));
  adjoint::nn::Child<Convs> dilated = register_module("dilated", Convs());
  adjoint::nn::Child<Convs> mixed = register_module("mixed", Convs());
  adjoint::nn::Child<adjoint::nn::Conv1d> output =
      register_module("output", adjoint::nn::Conv1d(options_.channels, 1, {.kernel_size = 1}));
};

/// Writes parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Amp& model);
/// In eval mode. Throws Error, naming the file, if it is not such a model.
Amp load_model(const std::filesystem::path& path);

}  // namespace amp
