// The networks: each computes, at the low resolution, a correction of bicubic interpolation. networks() lists them.
#pragma once

#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace super_resolution {

/// Names of the networks, the default one first.
std::vector<std::string> networks();

struct ModelOptions {
  std::string network = "transposed";
  /// The factor of enlargement: 2, 3 or 4.
  std::int64_t scale = 2;
  /// Channels, from 1 to 1024; 0: the network's own.
  std::int64_t features = 0;
  /// Inner convolutions, of edsr residual blocks, from 0 to 64; -1: the network's own.
  std::int64_t layers = -1;
};
/// Fills in the network's default numbers for missing ones; with `quick`, those of a smaller network. Throws Error for
/// options out of range.
ModelOptions complete(ModelOptions options, bool quick = false);
/// "fsrcnn for 3x".
std::string to_string(const ModelOptions& options);

/// luma (N, 1, H, W) -> luma (N, 1, scale H, scale W). Untrained, it is bicubic interpolation.
class Model : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit Model(const ModelOptions& options = {});
  adjoint::Tensor operator()(const adjoint::Tensor& low) const;

  const ModelOptions& options() const { return options_; }
  std::int64_t scale() const { return options_.scale; }
  /// Low-resolution pixels, in each direction, that one pixel of the result may depend on.
  std::int64_t radius() const;

 private:
  static adjoint::nn::Sequential body(const ModelOptions& options);
  static adjoint::nn::Layer up(const ModelOptions& options);

  ModelOptions options_;  // complete
  adjoint::nn::Child<adjoint::nn::Sequential> body_ = register_module("body", body(options_));
  adjoint::nn::Child<adjoint::nn::Layer> up_ = register_module("up", up(options_));
};

/// Bicubic interpolation with a = -0.5, as PIL and MATLAB have it: (..., H, W) -> (..., scale H, scale W).
adjoint::Tensor bicubic(const adjoint::Tensor& low, std::int64_t scale);

/// Writes the parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Model& model);
/// Loads the network that the file describes. Throws Error, naming the file, if it is not such a model, or if its
/// parameters do not match the network and scale that it describes; these are then named too.
Model load_model(const std::filesystem::path& path);

}  // namespace super_resolution
