// U-Net in three dimensions (Çiçek et al.: "3D U-Net: learning dense volumetric segmentation from sparse annotation",
// 2016), padded, with the normalisation and activation of nnU-Net (Isensee et al., 2021).
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module_list.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace volumes {

struct UNetOptions {
  std::int64_t classes = 2;
  /// Channels at full resolution; each halving of it doubles them.
  std::int64_t features = 16;
  /// Halvings.
  std::int64_t depth = 3;
  /// "instance" or "batch": InstanceNorm or BatchNorm.
  std::string norm = "instance";
};

class UNet : public adjoint::nn::Module {
 public:
  /// Throws Error for options out of range.
  explicit UNet(const UNetOptions& options);
  /// Volumes (N, 1, D, H, W) of mean 0 and variance 1, extents at least 2^depth -> scores (N, classes, D, H, W). With
  /// InstanceNorm, whose statistics need two voxels at the lowest level, one extent must be 2^(depth + 1) or more.
  adjoint::Tensor operator()(const adjoint::Tensor& volume) const;

  const UNetOptions& options() const { return options_; }
  /// 2^depth, the factor by which the lowest level is smaller.
  std::int64_t alignment() const { return std::int64_t{1} << options_.depth; }

 private:
  UNetOptions options_;
  using Blocks = adjoint::nn::ModuleList<adjoint::nn::Sequential>;
  using Ups = adjoint::nn::ModuleList<adjoint::nn::ConvTranspose3d>;
  adjoint::nn::Child<Blocks> down_ = register_module("down", Blocks());
  adjoint::nn::Child<Blocks> up_convs_ = register_module("up_convs", Blocks());
  adjoint::nn::Child<Ups> ups_ = register_module("ups", Ups());
  adjoint::nn::Child<adjoint::nn::Conv3d> out_ =
      register_module("out", adjoint::nn::Conv3d(options_.features, options_.classes, 1));
};

/// Writes the parameters and, as metadata, the options and the classes' names.
void save_model(const std::filesystem::path& path, const UNet& model, const std::vector<std::string>& names);
struct NamedModel {
  UNet model;
  std::vector<std::string> names;
};
/// In eval mode. Throws Error, naming the file, for one that is not such a model.
NamedModel load_model(const std::filesystem::path& path);

}  // namespace volumes
