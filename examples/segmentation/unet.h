// U-Net (Ronneberger, Fischer, Brox: "U-Net: convolutional networks for biomedical image segmentation", 2015), padded,
// and with normalisation, as most write it since.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace segmentation {

struct UNetOptions {
  std::int64_t classes = 2;
  /// Channels at full resolution; each halving of it doubles them.
  std::int64_t features = 16;
  /// Halvings.
  std::int64_t depth = 3;
  /// "batch" or "group": BatchNorm, or GroupNorm of 8 channels a group.
  std::string norm = "batch";
};

class UNet : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit UNet(const UNetOptions& options);
  /// Pictures (N, 3, H, W), from 0 to 1, H and W at least 2^depth -> scores (N, classes, H, W).
  adjoint::Tensor operator()(const adjoint::Tensor& picture) const;

  const UNetOptions& options() const { return options_; }
  /// 2^depth: a window of a picture is pooled like the whole picture if it begins at a multiple of this.
  std::int64_t alignment() const { return std::int64_t{1} << options_.depth; }
  /// Pixels, in each direction, that a score depends on, rounded up to a multiple of alignment(); with GroupNorm, whose
  /// statistics are the whole window's, beside them.
  std::int64_t margin() const;

 private:
  UNetOptions options_;
  using Blocks = adjoint::nn::ModuleList<adjoint::nn::Sequential>;
  using Ups = adjoint::nn::ModuleList<adjoint::nn::ConvTranspose2d>;
  adjoint::nn::Child<Blocks> down_ = register_module("down", Blocks());
  adjoint::nn::Child<Blocks> up_convs_ = register_module("up_convs", Blocks());
  adjoint::nn::Child<Ups> ups_ = register_module("ups", Ups());
  adjoint::nn::Child<adjoint::nn::Conv2d> out_ =
      register_module("out", adjoint::nn::Conv2d(options_.features, options_.classes, 1));
};

/// Writes the parameters and, as metadata, the options and the classes' names.
void save_model(const std::filesystem::path& path, const UNet& model, const std::vector<std::string>& names);
struct NamedModel {
  UNet model;
  std::vector<std::string> names;
};
/// In eval mode. Throws Error, naming the file, for one that is not such a model.
NamedModel load_model(const std::filesystem::path& path);

}  // namespace segmentation
