// The network: a correction of bicubic interpolation, learnt at the low resolution and enlarged by a transposed
// convolution.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>

namespace super_resolution {

/// How many times larger the result is.
inline constexpr std::int64_t kScale = 2;

struct ModelOptions {
  /// Channels of every layer but the last.
  std::int64_t features = 32;
  /// Convolutions of 3 x 3 between the first and the last layer.
  std::int64_t layers = 3;
};

/// luma (N, 1, H, W) -> luma (N, 1, 2 H, 2 W). Untrained, it is bicubic interpolation.
class Model : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit Model(const ModelOptions& options = {});
  adjoint::Tensor operator()(const adjoint::Tensor& low) const;

  const ModelOptions& options() const { return options_; }
  /// Low-resolution pixels, in each direction, that one pixel of the result depends on.
  std::int64_t radius() const;

 private:
  ModelOptions options_;
  adjoint::nn::Child<adjoint::nn::Sequential> body_;
  adjoint::nn::Child<adjoint::nn::ConvTranspose2d> up_;
};

/// Bicubic interpolation with a = -0.5, as PIL and MATLAB have it: (..., H, W) -> (..., 2 H, 2 W).
adjoint::Tensor bicubic(const adjoint::Tensor& low);

/// Writes the parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Model& model);
/// Throws Error for a file that is not such a model.
Model load_model(const std::filesystem::path& path);

}  // namespace super_resolution
