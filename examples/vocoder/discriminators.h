// HiFi-GAN's discriminators: of several periods, which see every p-th sample, and, as MelGAN's (Kumar et al., 2019), of
// several scales, which see the sound and averages of it.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_list.h>

#include <cstdint>
#include <vector>

namespace vocoder {

/// The discriminators' output for sounds: one score tensor each, and the feature maps of their layers.
struct Judgement {
  std::vector<adjoint::Tensor> scores;
  std::vector<adjoint::Tensor> features;
};

/// A stack of convolutions with leaky ReLUs, and one to scores.
class Discriminator : public adjoint::nn::Module {
 public:
  struct Layer {
    std::int64_t channels, kernel_size, stride, groups = 1;
  };
  enum class Norm : std::uint8_t { kWeight, kSpectral };
  Discriminator(const std::vector<Layer>& layers, std::int64_t last_kernel_size, Norm norm);
  /// (N, 1, L); adds to `judgement`.
  void operator()(const adjoint::Tensor& sound, Judgement& judgement) const;

 private:
  using Convs = adjoint::nn::ModuleList<adjoint::nn::Conv1d>;
  adjoint::nn::Child<Convs> convs_ = register_module("convs", Convs());
};

class Discriminators : public adjoint::nn::Module {
 public:
  /// `channels`: behind the first layer of those of a period; 32 in the paper.
  explicit Discriminators(std::int64_t channels);
  /// Sound (N, 1, L).
  Judgement operator()(const adjoint::Tensor& sound) const;

 private:
  using Each = adjoint::nn::ModuleList<Discriminator>;
  adjoint::nn::Child<Each> periods_ = register_module("periods", Each());
  adjoint::nn::Child<Each> scales_ = register_module("scales", Each());
};

/// The sum of the least squares' losses; see GanLoss. The paper's without its factor 1/2 is twice as large.
adjoint::Tensor discriminator_loss(const std::vector<adjoint::Tensor>& real, const std::vector<adjoint::Tensor>& fake);
adjoint::Tensor generator_loss(const std::vector<adjoint::Tensor>& fake);
/// The sum over layers of the mean of |real - fake|.
adjoint::Tensor feature_loss(const Judgement& real, const Judgement& fake);

}  // namespace vocoder
