// The diffusion process: pictures become noise over many steps (Ho, Jain, Abbeel, 2020), and noise becomes pictures
// over few (Song, Meng, Ermon: "Denoising diffusion implicit models", 2021).
#pragma once

#include "denoiser.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <vector>

namespace diffusion {

/// Times of a noisy picture: 0 has almost no noise, kTimes - 1 nothing else.
inline constexpr std::int64_t kTimes = 1000;

/// The share of a picture's variance that is left at each time, decreasing from almost 1 to almost 0: the cosine
/// schedule of Nichol, Dhariwal: "Improved denoising diffusion probabilistic models", 2021.
const std::vector<double>& signal_shares();

/// Noisy pictures, and what the network learns to find in them, both (N, 3, H, W).
struct Noisy {
  /// sqrt(share) pictures + sqrt(1 - share) noise.
  adjoint::Tensor pictures;
  /// sqrt(share) noise - sqrt(1 - share) pictures: the derivative of the noisy pictures in the angle whose cosine is
  /// sqrt(share). It gives the picture also where hardly any of it is left (Salimans, Ho: "Progressive distillation for
  /// fast sampling of diffusion models", 2022).
  adjoint::Tensor velocity;
};

/// Adds noise to pictures.
class Noising {
 public:
  explicit Noising(adjoint::Device device);
  /// Pictures and noise (N, 3, H, W) at times (N), int64.
  Noisy operator()(const adjoint::Tensor& pictures, const adjoint::Tensor& noise, const adjoint::Tensor& times) const;

 private:
  adjoint::Tensor signal_, noise_;  // (kTimes), float32: the factors
};

/// A network that makes pictures from noise in some steps of DDIM, without further random numbers.
class Sampler : public adjoint::nn::Module {
 public:
  static constexpr std::int64_t kMostSteps = kTimes;

  /// Throws Error for steps that are not from 1 to kMostSteps.
  Sampler(const Denoiser& model, std::int64_t steps);
  /// Noise (N, 3, H, W) -> pictures (N, 3, H, W) in [-1, 1].
  adjoint::Tensor operator()(const adjoint::Tensor& noise) const;

 private:
  std::int64_t steps_;
  adjoint::nn::Child<Denoiser> model_;
};

}  // namespace diffusion
