// The interface that both kinds of autoencoder share.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/sequential.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace autoencoder {

/// Pictures are (N, 3, 32, 32) in [-1, 1], float32, on the model's device.
class Model {
 public:
  virtual ~Model() = default;

  /// The data from which a saved model is built again: its "kind", and its options.
  virtual nlohmann::json options() const = 0;
  virtual adjoint::nn::Module& module() = 0;
  const adjoint::nn::Module& module() const { return const_cast<Model*>(this)->module(); }

  /// A picture's representation before the bottleneck's noise or rounding: (N, ...), floating point. The straight line
  /// between two of them consists of such representations.
  virtual adjoint::Tensor encode(const adjoint::Tensor& pictures) const = 0;
  /// The way back from it.
  virtual adjoint::Tensor decode(const adjoint::Tensor& latent) const = 0;
  /// New pictures, by the thread's default generator.
  virtual adjoint::Tensor sample(std::int64_t count, adjoint::Device device) const = 0;
  /// encode()'s result in the form that is stored: VAE's means, float32, or VQ-VAE's codes, int64; and back.
  virtual adjoint::Tensor compress(const adjoint::Tensor& pictures) const = 0;
  virtual adjoint::Tensor decompress(const adjoint::Tensor& kept) const = 0;

  /// Numbers, or codes, that compress() keeps of a picture, and bits of each.
  virtual std::int64_t kept() const = 0;
  virtual double bits() const = 0;

 protected:
  Model() = default;
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
};

/// Writes parameters and buffers and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Model& model);
/// Either kind, in eval mode. Throws Error, naming the file, for one that is not such a model.
std::unique_ptr<Model> load_model(const std::filesystem::path& path);

/// Throws Error unless low <= value <= high.
void check_option(const char* name, std::int64_t value, std::int64_t low, std::int64_t high);

}  // namespace autoencoder
