// Training of the denoising network, and the distance of its pictures from real ones.
#pragma once

#include "denoiser.h"
#include "process.h"

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

namespace diffusion {

struct Options {
  /// Folder of pictures, or with MNIST's or CIFAR-10's files; empty: drawn ones.
  std::string images;
  /// The drawn set; also the one whose classes the classifier knows.
  std::string drawn = "shapes";
  std::int64_t features = 64, heads = 4;
  double ema = 0.9995;
  /// Of DDIM, in tests and for the pictures of the outputs.
  std::int64_t sampling_steps = 50;
  /// Pictures that a test makes.
  std::int64_t compared = 2048;
  /// Training steps of the classifier whose features are compared.
  std::int64_t classifier_steps = 600;

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  /// Pictures, noise, and times.
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override { return measure_.baselines(); }
  std::vector<std::string> outputs() const override {
    return {"model.safetensors", "samples.png", "interpolation.png", "samples"};
  }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

 private:
  /// The average's pictures, in eval mode; uint8, on the CPU.
  adjoint::Tensor averaged(const adjoint::Tensor& noise);

  examples::Run run_;
  Options options_;
  examples::Arithmetic arithmetic_;
  examples::SquareSource source_;
  Noising noising_;
  Denoiser model_;
  adjoint::distributed::DataParallel<Denoiser> parallel_;
  adjoint::optim::Adam adam_;
  adjoint::optim::EMA ema_;
  adjoint::data::DataLoader loader_;
  examples::FrechetMeasure measure_;
};

}  // namespace diffusion
