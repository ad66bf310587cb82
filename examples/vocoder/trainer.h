// Training of the generator against the discriminators: losses, data, and measurements of its sound.
#pragma once

#include "discriminators.h"
#include "generator.h"
#include "measure.h"
#include "sounds.h"

#include "common/arithmetic.h"
#include "common/training.h"

#include <adjoint/data/dataset.h>
#include <adjoint/data/loader.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vocoder {

struct Options {
  /// Folder of sound files; empty: made sounds.
  std::string sounds;
  /// Folder of the test sounds; empty: every eighth of the others.
  std::string tests;
  GeneratorOptions generator{.network = "v1", .clock = 8};
  /// Samples that a step learns from, a multiple of kHop.
  std::int64_t segment = 16384;
  std::int64_t discriminator_channels = 16;  // 32 in the paper
  /// The step from which on the discriminators take part; negative: so many steps before the end, a quarter of all at
  /// most.
  std::int64_t adversarial_from = -300;

  void add_to(examples::Settings& settings);
  /// Returns the options with a step as adversarial_from. Checkpoints keep it: a longer training stays adversarial.
  Options resolved(std::int64_t steps) const;
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<std::string> names() const override { return {"loss", "mel_loss", "discriminator_loss"}; }
  /// Sound (N, segment + 2 kMargin).
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  /// 1 once the discriminators take part.
  std::int64_t phase() const override { return step_ >= options_.adversarial_from ? 1 : 0; }
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override { return {"model.safetensors", "spectrograms.png", "sounds"}; }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  struct Source;
  Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source);
  /// Updates the discriminators; `fake`, of no tape, is the generator's result for `real`.
  adjoint::Tensor update_discriminators(const adjoint::Tensor& real, const adjoint::Tensor& fake);
  void write_sounds(const examples::Moment& moment) const;

  examples::Run run_;
  Options options_;
  examples::Arithmetic arithmetic_;
  std::shared_ptr<Source> source_;
  Generator generator_;
  Discriminators discriminators_;
  adjoint::distributed::DataParallel<Generator> parallel_g_;
  adjoint::distributed::DataParallel<Discriminators> parallel_d_;
  adjoint::optim::AdamW adam_g_, adam_d_;
  adjoint::optim::CosineAnnealingLR schedule_g_, schedule_d_;
  adjoint::data::DataLoader loader_;
  std::int64_t step_ = 0;
};

}  // namespace vocoder
