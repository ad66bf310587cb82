// Training of the three-dimensional U-Net: its data and tests.
#pragma once

#include "predict.h"
#include "scans.h"
#include "unet.h"

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

namespace volumes {

struct Options {
  /// Folders of volumes and of masks; empty: drawn scans.
  std::string images, masks;
  std::string norm = "instance";
  std::int64_t features = 16, depth = 3;
  /// Extent of the training patches, in voxels; tiles of tests have it too, but at least 32.
  std::int64_t patch = 48;

  void add_to(examples::Settings& settings);
};

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override { return {"model.safetensors", "slices.png"}; }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

  const UNet& model() const { return model_; }

 private:
  struct Source;
  Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source);
  adjoint::Tensor found(const Scan& scan) const;

  examples::Run run_;
  examples::Arithmetic arithmetic_;
  std::shared_ptr<Source> source_;
  std::int64_t patch_;
  UNet model_;
  adjoint::distributed::DataParallel<UNet> parallel_;
  adjoint::optim::AdamW adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  adjoint::data::DataLoader loader_;
};

}  // namespace volumes
