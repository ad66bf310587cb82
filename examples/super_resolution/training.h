// Training: the data for training and testing, the step, and the outputs.
#pragma once

#include "adversary.h"
#include "model.h"
#include "pictures.h"

#include "common/arithmetic.h"
#include "common/training.h"

#include <adjoint/data/loader.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace super_resolution {

struct Options {
  /// Pictures to train on; empty: made ones.
  std::string images;
  /// Pictures to test on; empty: some of `images`, which are then left out of training.
  std::string validation;
  /// Extent of the training patches, in low-resolution pixels.
  std::int64_t patch = 32;
  ModelOptions model = {};
  /// The measure of the difference from the original: mse, l1, charbonnier; gan: l1, and a discriminator.
  std::string loss = "mse";
  /// Channels of the discriminator's first layer.
  std::int64_t discriminator_channels = 64;

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<std::string> names() const override;
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  /// psnr_adjoint, in dB, mean over the pictures that the model is tested on.
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override { return {{"bicubic", bicubic_psnr_}}; }
  std::vector<std::string> outputs() const override { return {"model.safetensors", "comparison.png"}; }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

  const Model& model() const { return model_; }
  adjoint::Device device() const { return run_.device; }
  /// The pictures that the model is tested on, and their lumas.
  const PictureSet& validation() const { return split_.validation; }
  const std::vector<LumaPair>& tests() const { return tests_; }

 private:
  Trainer(const Options& options, const examples::Run& run, Split split);
  std::vector<adjoint::Tensor> step_against_adversary(const adjoint::Tensor& low, const adjoint::Tensor& high);

  examples::Run run_;
  Options options_;
  examples::Arithmetic arithmetic_;
  Split split_;
  Patches patches_;
  std::vector<LumaPair> tests_;
  Model model_;
  adjoint::distributed::DataParallel<Model> parallel_;
  adjoint::optim::Adam adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  adjoint::data::DataLoader loader_;
  std::unique_ptr<Adversary> adversary_;  // with the loss gan
  double bicubic_psnr_ = 0.0;
};

/// comparison.png: pieces of up to three test pictures, each as the network sees it, enlarged bicubically, enlarged by
/// the model, and the original; with the whole picture's PSNR.
void write_comparison(const std::filesystem::path& path, const Trainer& trainer, const std::vector<Quality>& qualities);

}  // namespace super_resolution
