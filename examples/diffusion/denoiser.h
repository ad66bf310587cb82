// The denoising network: a U-Net of residual blocks that know the time, with attention at its lowest resolution (Ho,
// Jain, Abbeel: "Denoising diffusion probabilistic models", 2020).
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>

namespace diffusion {

struct DenoiserOptions {
  /// Channels at full resolution, a multiple of 8; each of the two halvings of the resolution doubles them.
  std::int64_t features = 64;
  /// Of the attention; divides 4 features.
  std::int64_t heads = 4;
};

/// Two convolutions beside a short cut. Between them the time's features are added to the channels.
class Residual : public adjoint::nn::Module {
 public:
  Residual(std::int64_t in, std::int64_t out, std::int64_t time_features);
  /// x (N, in, H, W), time (N or 1, time_features) -> (N, out, H, W).
  adjoint::Tensor operator()(const adjoint::Tensor& x, const adjoint::Tensor& time) const;

 private:
  adjoint::nn::Child<adjoint::nn::GroupNorm> norm1_, norm2_;
  adjoint::nn::Child<adjoint::nn::Conv2d> conv1_, conv2_;
  adjoint::nn::Child<adjoint::nn::Linear> time_;
  adjoint::nn::Child<adjoint::nn::Sequential> shortcut_;  // empty if the channels stay
};

/// Every position attends to all positions, beside a short cut.
class SelfAttention : public adjoint::nn::Module {
 public:
  SelfAttention(std::int64_t channels, std::int64_t heads);
  /// (N, channels, H, W) -> the same.
  adjoint::Tensor operator()(const adjoint::Tensor& x) const;

 private:
  std::int64_t heads_;
  adjoint::nn::Child<adjoint::nn::GroupNorm> norm_;
  adjoint::nn::Child<adjoint::nn::Conv2d> qkv_, out_;
};

class Denoiser : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit Denoiser(const DenoiserOptions& options);
  /// Noisy pictures (N, 3, H, W), H and W multiples of 4, and their times (N) or (1), int64 -> their velocity
  /// (N, 3, H, W), see process.h.
  adjoint::Tensor operator()(const adjoint::Tensor& pictures, const adjoint::Tensor& times) const;

  const DenoiserOptions& options() const { return options_; }

 private:
  DenoiserOptions options_;
  adjoint::nn::Child<adjoint::nn::Sequential> time_;
  adjoint::nn::Child<adjoint::nn::Conv2d> in_;
  adjoint::nn::Child<adjoint::nn::ModuleList<Residual>> down_, middle_, up_;
  adjoint::nn::Child<adjoint::nn::ModuleList<adjoint::nn::Conv2d>> halve_;
  adjoint::nn::Child<adjoint::nn::ModuleList<adjoint::nn::ConvTranspose2d>> double_;
  adjoint::nn::Child<SelfAttention> attention_;
  adjoint::nn::Child<adjoint::nn::Sequential> out_;
};

/// Writes the parameters and, as metadata, the options.
void save_model(const std::filesystem::path& path, const Denoiser& model);
/// In eval mode. Throws Error, naming the file, for one that is not such a model.
Denoiser load_model(const std::filesystem::path& path);

}  // namespace diffusion
