// Training of the model on pieces of a recording, and its outputs.
#pragma once

#include "model.h"
#include "recordings.h"

#include "common/arithmetic.h"
#include "common/training.h"

#include <adjoint/data/loader.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <cstdint>
#include <string>
#include <vector>

namespace amp {

struct Options {
  /// Files of the sound that goes into the device, and of the sound that comes out; empty: made sounds.
  std::string input, target;
  /// Seconds of made sound to train on.
  std::int64_t seconds = 300;
  AmpOptions model = {};
  /// Samples that a piece is trained on, behind those that only fill the network's context.
  std::int64_t segment = 8192;

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  /// Input and target (N, 1, context + segment).
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override { return {"model.safetensors", "sounds"}; }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  Trainer(const Options& options, const examples::Run& run, const Recordings& recordings);
  /// Without the first samples, whose context the recording lacks.
  adjoint::Tensor tested(const adjoint::Tensor& samples) const;

  examples::Run run_;
  Options options_;
  examples::Arithmetic arithmetic_;
  Recordings recordings_;
  Amp model_;
  adjoint::distributed::DataParallel<Amp> parallel_;
  adjoint::optim::AdamW adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  Pieces pieces_;
  adjoint::data::DataLoader loader_;
};

}  // namespace amp
