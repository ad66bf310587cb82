// --loss gan: a discriminator of patches, and its part of a step.
#pragma once

#include "common/arithmetic.h"
#include "common/training.h"

#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <cstdint>

namespace super_resolution {

/// Luma and the bicubic enlargement of its low resolution, (N, 1, H, W) each in [0, 1] -> scores (N, 1, h, w), one for
/// each patch of 34 x 34 pixels: the PatchGAN of Isola, Zhu, Zhou, Efros: "Image-to-image translation with conditional
/// adversarial networks", 2017, with two halvings of the resolution, and spectral_norm in place of BatchNorm. H and W
/// must be at least kLeastExtent.
class PatchDiscriminator : public adjoint::nn::Module {
 public:
  static constexpr std::int64_t kLeastExtent = 12;

  /// `channels` of the first layer.
  explicit PatchDiscriminator(std::int64_t channels);
  adjoint::Tensor operator()(const adjoint::Tensor& luma, const adjoint::Tensor& plain) const;

 private:
  static adjoint::nn::Sequential layers(std::int64_t channels);

  std::int64_t channels_;
  adjoint::nn::Child<adjoint::nn::Sequential> main_ = register_module("main", layers(channels_));
};

/// The discriminator in training, by the hinge loss.
class Adversary {
 public:
  Adversary(std::int64_t channels, const examples::Run& run);

  void add_to(examples::State& state);
  std::int64_t num_parameters() const { return net_.num_parameters(); }
  /// Updates the discriminator, on a separate tape, to distinguish `real` from `made`, which no tape may have recorded.
  /// Returns its loss.
  adjoint::Tensor update(examples::Arithmetic& arithmetic, const adjoint::Tensor& real, const adjoint::Tensor& made,
                         const adjoint::Tensor& plain);
  /// The generator's loss, which leaves no gradients in the discriminator.
  adjoint::Tensor loss_of(const adjoint::Tensor& made, const adjoint::Tensor& plain);

 private:
  PatchDiscriminator net_;
  adjoint::distributed::DataParallel<PatchDiscriminator> parallel_;
  adjoint::optim::Adam adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
};

}  // namespace super_resolution
