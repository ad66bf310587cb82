// DCGAN's networks (Radford, Metz, Chintala: "Unsupervised representation learning with deep convolutional generative
// adversarial networks", 2016) for pictures of 32 x 32 pixels.
#pragma once

#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace gan {

struct GeneratorOptions {
  /// Random numbers per picture.
  std::int64_t latent = 64;
  /// Channels before the last layer; each doubling of the resolution halves them.
  std::int64_t features = 32;
};

class Generator : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit Generator(const GeneratorOptions& options);
  /// Noise (N, latent) -> pictures (N, 3, 32, 32) in (-1, 1).
  adjoint::Tensor operator()(const adjoint::Tensor& noise) const;

  const GeneratorOptions& options() const { return options_; }

 private:
  static adjoint::nn::Sequential layers(const GeneratorOptions& options);

  GeneratorOptions options_;
  adjoint::nn::Child<adjoint::nn::Sequential> main_ = register_module("main", layers(options_));
};

/// The normalisation between a discriminator's convolutions.
enum class Normalisation : std::uint8_t { kBatch, kNone, kSpectral };

class Discriminator : public adjoint::nn::Module {
 public:
  /// `features`: channels behind the first layer, doubled by each other one.
  Discriminator(std::int64_t features, Normalisation normalisation);
  /// Pictures (N, 3, 32, 32) -> scores (N) of being real.
  adjoint::Tensor operator()(const adjoint::Tensor& pictures) const;

 private:
  static adjoint::nn::Sequential layers(std::int64_t features, Normalisation normalisation);

  std::int64_t features_;
  Normalisation normalisation_;
  adjoint::nn::Child<adjoint::nn::Sequential> main_ = register_module("main", layers(features_, normalisation_));
};

/// Writes parameters and buffers and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Generator& model);
/// In eval mode. Throws Error, naming the file, for one that is not such a model.
Generator load_model(const std::filesystem::path& path);

}  // namespace gan
