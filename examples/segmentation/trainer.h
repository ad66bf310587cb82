// Training of the U-Net: its data, loss and tests.
#pragma once

#include "predict.h"
#include "scenes.h"
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

namespace segmentation {

struct Options {
  /// Folders of pictures and of masks; empty: drawn scenes.
  std::string images, masks;
  std::string norm = "batch";
  std::int64_t features = 16, depth = 3;
  /// Extent of the training patches, in pixels.
  std::int64_t patch = 96;

  void add_to(examples::Settings& settings);
};

/// Pictures with masks. A picture's mask is the PNG file of its path below the other folder; extensions may differ.
struct MaskedPictures {
  std::vector<Scene> scenes;
  std::vector<std::string> names;  // of the pictures
  std::int64_t classes = 0;
};
/// Throws Error, naming the file, if a picture has no mask or one of another size, or if a mask's values are not class
/// numbers. Pictures that cannot be read are reported on standard error and left out.
MaskedPictures read_masked(const std::string& images, const std::string& masks);

class Trainer final : public examples::Training {
 public:
  Trainer(const Options& options, const examples::Run& run);

  void add_to(examples::State& state) override;
  std::string description() const override;
  std::vector<adjoint::Tensor> next() override;
  std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) override;
  examples::Values test(const examples::Moment& moment) override;
  examples::Values baselines() const override;
  std::vector<std::string> outputs() const override { return {"model.safetensors", "overlays.png"}; }
  void finish(const examples::Moment& moment, nlohmann::ordered_json& metrics) override;

  const UNet& model() const { return model_; }

 private:
  struct Source;
  Trainer(const Options& options, const examples::Run& run, std::shared_ptr<Source> source);

  examples::Run run_;
  examples::Arithmetic arithmetic_;
  std::shared_ptr<Source> source_;
  UNet model_;
  adjoint::distributed::DataParallel<UNet> parallel_;
  adjoint::optim::AdamW adam_;
  adjoint::optim::CosineAnnealingLR schedule_;
  adjoint::data::DataLoader loader_;
};

}  // namespace segmentation
