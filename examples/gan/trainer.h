// Training of the two networks: losses, data, and the distance of the generator's pictures from real ones.
#pragma once

#include "networks.h"

#include "common/arithmetic.h"
#include "common/frechet.h"
#include "common/squares.h"
#include "common/training.h"

#include <adjoint/data/loader.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/ema.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gan {

struct Options {
  /// Folder of pictures, or with MNIST's or CIFAR-10's files; empty: drawn ones.
  std::string images;
  /// The drawn set; also the one whose classes the classifier knows.
  std::string drawn = "shapes";
  std::string loss = "nonsaturating";
  std::int64_t latent = 64, features = 64;
  /// Updates of the discriminator for each of the generator; 0: the loss's own.
  std::int64_t critic_steps = 0;
  double ema = 0.999;
  /// Training steps of the classifier whose features are compared.
  std::int64_t classifier_steps = 600;

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<std::string> names() const override { return {"generator_loss", "discriminator_loss"}; }
  /// Real pictures, noise and places of the penalty for critic_steps batches, and noise for one more.
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override { return measure_.baselines(); }
  std::vector<std::string> outputs() const override {
    return {"model.safetensors", "samples.png", "interpolation.png", "samples"};
  }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  struct Recipe;
  static const Recipe& recipe_of(const std::string& loss);
  static std::int64_t critic_steps_of(const Options& options);
  /// The average's pictures, in eval mode; uint8, on the CPU.
  adjoint::Tensor averaged(const adjoint::Tensor& noise);

  examples::Run run_;
  Options options_;
  const Recipe& recipe_;
  std::int64_t critic_steps_;
  examples::Arithmetic arithmetic_;
  examples::SquareSource source_;
  Generator generator_;
  Discriminator discriminator_;
  adjoint::distributed::DataParallel<Generator> parallel_g_;
  adjoint::distributed::DataParallel<Discriminator> parallel_d_;
  adjoint::optim::Adam adam_g_, adam_d_;
  adjoint::optim::EMA ema_;
  adjoint::data::DataLoader loader_;
  examples::FrechetMeasure measure_;
};

}  // namespace gan
