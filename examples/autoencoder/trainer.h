// Training of either kind of autoencoder, and its outputs.
#pragma once

#include "recipe.h"

#include "common/arithmetic.h"
#include "common/squares.h"
#include "common/training.h"

#include <adjoint/data/loader.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <memory>
#include <string>
#include <vector>

namespace autoencoder {

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<std::string> names() const override { return recipe_->names(); }
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override {
    return {"model.safetensors", "reconstructions.png", "samples.png", "walk.png", "reconstructions"};
  }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  examples::Run run_;
  std::string images_;
  examples::Arithmetic arithmetic_;
  examples::SquareSource source_;
  std::unique_ptr<Recipe> recipe_;
  adjoint::optim::Adam adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  adjoint::data::DataLoader loader_;
};

}  // namespace autoencoder
