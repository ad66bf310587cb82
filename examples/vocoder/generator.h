// HiFi-GAN's generator (Kong, Kim, Bae: "HiFi-GAN: generative adversarial networks for efficient and high fidelity
// speech synthesis", 2020): transposed convolutions from a mel spectrogram's rate to the sound's, each followed by the
// mean of residual blocks of several kernel sizes and dilations. Every convolution is weight-normalised.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_list.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vocoder {

/// A row of the table of networks; v1, v2 and v3 are the paper's.
struct Network {
  std::string name;
  std::int64_t channels;            // in front of the first transposed convolution; each halves them
  std::vector<std::int64_t> rates;  // their strides, even; the kernels are twice as large
  std::vector<std::int64_t> kernel_sizes;
  std::vector<std::vector<std::int64_t>> dilations;  // for each kernel size, those of the block's convolutions
  bool paired;                                       // behind each of them another one, not dilated
};
const std::vector<Network>& networks();

struct GeneratorOptions {
  /// A name of networks().
  std::string network = "v2";
  /// Channels instead of the network's own; 0: the network's own.
  std::int64_t channels = 0;
  /// Hz, of the sound that it makes.
  std::int64_t sample_rate = 22050;
  /// Period in frames of the clock beside the mel bands; 0: no clock, as in the paper. See inputs().
  std::int64_t clock = 0;
};

/// Adds one convolution (or pair of them) after the other to x.
class ResBlock : public adjoint::nn::Module {
 public:
  ResBlock(std::int64_t channels, std::int64_t kernel_size, const std::vector<std::int64_t>& dilations, bool paired);
  adjoint::Tensor operator()(const adjoint::Tensor& input) const;

  using Convs = adjoint::nn::ModuleList<adjoint::nn::Conv1d>;
  adjoint::nn::Child<Convs> convs1 = register_module("convs1", Convs());
  adjoint::nn::Child<Convs> convs2 = register_module("convs2", Convs());
};

class Generator : public adjoint::nn::Module {
 public:
  static constexpr double kSlope = 0.1;  // of the leaky ReLUs

  /// Throws Error for invalid options.
  explicit Generator(const GeneratorOptions& options);
  /// Logarithms of mel spectrograms (N, 80, frames) -> sound (N, 1, 256 frames) in (-1, 1); see mel.h.
  adjoint::Tensor operator()(const adjoint::Tensor& mel) const;

  const GeneratorOptions& options() const { return options_; }
  const Network& network() const { return network_; }
  /// Returns the input of the first convolution, (N, 80 + P, frames): the logarithms, scaled to a mean near 0 and a
  /// deviation near 1, and after them a clock, the cosines and sines of 2 pi k t / P for k from 1 to P / 2. P is
  /// options().clock, and t the number of the frame; the first frame here has the number `first`.
  ///
  /// Convolutions do the same at every frame. For a constant mel spectrogram they repeat the same 256 samples, whose
  /// pitch is a multiple of 86 Hz (at 22.05 kHz); with a clock, of a P-th of that.
  adjoint::Tensor inputs(const adjoint::Tensor& mel, std::int64_t first = 0) const;
  /// inputs() -> sound (N, 1, 256 frames).
  adjoint::Tensor sound_of(const adjoint::Tensor& inputs) const;
  /// The number of frames before and after a frame that its samples depend on.
  std::int64_t frames_around() const;

 private:
  GeneratorOptions options_;
  Network network_;

  /// The first convolution, and the last.
  adjoint::nn::Conv1d pre() const;
  adjoint::nn::Conv1d post() const;

 public:
  using Ups = adjoint::nn::ModuleList<adjoint::nn::ConvTranspose1d>;
  using ResBlocks = adjoint::nn::ModuleList<ResBlock>;
  adjoint::nn::Child<adjoint::nn::Conv1d> conv_pre = register_module("conv_pre", pre());
  adjoint::nn::Child<Ups> ups = register_module("ups", Ups());
  adjoint::nn::Child<ResBlocks> resblocks = register_module("resblocks", ResBlocks());  // a kernel size after the other
  adjoint::nn::Child<adjoint::nn::Conv1d> conv_post = register_module("conv_post", post());
};

/// Writes parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Generator& model);
/// Loads a generator for synthesis: in eval mode, with weights that are no longer computed in each call. Throws Error,
/// naming the file, if it is not such a model.
Generator load_model(const std::filesystem::path& path);
/// The same for a generator that has been trained, or has not.
void remove_weight_norms(Generator& model);

}  // namespace vocoder
