// Training of the model on random windows of a text, and its outputs.
#pragma once

#include "corpus.h"
#include "gpt.h"

#include "common/arithmetic.h"
#include "common/training.h"

#include <adjoint/data/loader.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <memory>
#include <string>
#include <vector>

namespace text {

struct Options {
  /// Files and folders to train on; empty: the licences that Debian ships.
  std::vector<std::string> text;
  /// A file or folder to test on; empty: the last tenth of each of the others.
  std::string tests;
  GptOptions model = {};

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  /// Bytes (N, context + 1), uint8.
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override {
    return {"model.safetensors", "sample.txt", "held_out.txt", "samples"};
  }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  Trainer(const Options& options, const examples::Run& run, std::unique_ptr<Corpus> corpus);
  /// A text of that many bytes that the model writes, in eval mode.
  std::string written(std::int64_t length);

  examples::Run run_;
  examples::Arithmetic arithmetic_;
  std::unique_ptr<Corpus> corpus_;
  adjoint::Tensor tested_;  // of the held-out text
  Gpt model_;
  adjoint::distributed::DataParallel<Gpt> parallel_;
  adjoint::optim::AdamW adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  Windows windows_;
  adjoint::data::DataLoader loader_;
};

}  // namespace text
