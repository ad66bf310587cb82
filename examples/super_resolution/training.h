// Training: the loop, interruption, and going on exactly where a run stopped.
#pragma once

#include "model.h"
#include "pictures.h"
#include "progress.h"

#include <adjoint/core/device.h>
#include <adjoint/data/loader.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/schedule.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace super_resolution {

/// What a run depends on: saved in its checkpoint, so that --resume needs nothing else.
struct TrainingOptions {
  /// Pictures to train on; empty: made ones.
  std::string images;
  /// Pictures to test on; empty: some of `images`, which are then left out of training.
  std::string validation;
  std::int64_t steps = 1500;
  /// Patches a step, and their extent in low-resolution pixels.
  std::int64_t batch = 16, patch = 32;
  double lr = 2e-3;
  std::uint64_t seed = 1;
  ModelOptions model = {};
  /// Steps between two tests on the validation pictures, after each of which a checkpoint is written.
  std::int64_t test_every = 100;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelOptions, features, layers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingOptions, images, validation, steps, batch, patch, lr, seed, model,
                                   test_every)

/// One test.
struct CurvePoint {
  std::int64_t step = 0;
  double seconds = 0.0;  // of training so far
  double loss = 0.0;     // mean since the last test
  double psnr = 0.0;     // dB, of the model on the validation pictures
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CurvePoint, step, seconds, loss, psnr)

class Trainer {
 public:
  Trainer(const TrainingOptions& options, adjoint::Device device);
  /// Goes on from a checkpoint. Throws Error, naming it, for a file that is none or holds what no run writes, and where
  /// the pictures are not those of that run.
  static std::unique_ptr<Trainer> resume(const std::filesystem::path& checkpoint, adjoint::Device device);
  Trainer(const Trainer&) = delete;  // its parts refer to one another
  Trainer& operator=(const Trainer&) = delete;

  /// Steps until the last one, and returns true; or until `interrupted`, asked before every step, and returns false.
  /// Writes `checkpoint` after every test and where it is interrupted. Throws Error where the loss is no longer finite.
  bool run(const std::filesystem::path& checkpoint, Progress& progress, const std::function<bool()>& interrupted);

  const TrainingOptions& options() const { return options_; }
  const Model& model() const { return model_; }
  adjoint::Device device() const { return device_; }
  /// The pictures that the model is tested on, and their lumas.
  const PictureSet& validation() const { return split_.validation; }
  const std::vector<LumaPair>& tests() const { return tests_; }
  /// Mean over them.
  double bicubic_psnr() const { return bicubic_psnr_; }
  const std::vector<CurvePoint>& curve() const { return curve_; }
  std::int64_t steps_done() const { return schedule_.last_epoch(); }
  /// Of training, all sessions of a resumed run together.
  double seconds() const { return seconds_; }
  void save(const std::filesystem::path& checkpoint) const;

 private:
  Trainer(const TrainingOptions& options, adjoint::Device device, Split split);
  double step(const adjoint::data::Example& batch);
  void test();
  void load(const adjoint::nn::Safetensors& file, const nlohmann::json& state);

  TrainingOptions options_;
  adjoint::Device device_;
  Split split_;
  Patches patches_;
  std::vector<LumaPair> tests_;
  Model model_;
  adjoint::optim::Adam adam_;
  adjoint::optim::CosineAnnealingLR schedule_;  // counts the steps
  adjoint::data::DataLoader loader_;
  double bicubic_psnr_ = 0.0;
  double seconds_ = 0.0;
  double loss_sum_ = 0.0;  // since the last test
  std::vector<CurvePoint> curve_;
};

}  // namespace super_resolution
