// Where pictures come from and what is made of them: low resolutions, luma, patches to train on, PSNR.
#pragma once

#include "model.h"

#include <adjoint/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace super_resolution {

/// A numbered set of pictures: files, or made ones.
class PictureSet {
 public:
  /// Throws Error for a file that cannot be read, when it is asked for.
  static PictureSet of_files(std::vector<std::filesystem::path> paths);
  /// Pictures number first, first + 1, ... of synthetic.h, each height x width.
  static PictureSet synthetic(std::uint64_t first, std::int64_t count, std::int64_t extent);

  /// From now on, of a picture of more pixels than its share of `total_pixels` (at least 4096) only the middle.
  void limit(std::int64_t total_pixels);
  std::int64_t size() const { return count_; }
  std::string name(std::int64_t i) const;
  /// (3, H, W), uint8, H and W even: an odd last row or column is left out.
  adjoint::Tensor rgb(std::int64_t i) const;

 private:
  std::vector<std::filesystem::path> paths_;
  std::uint64_t first_ = 0;
  std::int64_t count_ = 0, extent_ = 0;
  std::int64_t max_pixels_ = std::numeric_limits<std::int64_t>::max();  // of one picture
};

struct Split {
  PictureSet training, validation;
};
/// The pictures of `training` and `validation`; where `validation` is empty, every eighth of `training`'s, at least
/// one, is kept for it. Throws Error where a picture would be in both, or one of the sets would be empty.
Split split_folder(const std::filesystem::path& training, const std::filesystem::path& validation);

/// BT.601 luma (1, H, W), float32 in [0, 1], of a picture (3, H, W), uint8.
adjoint::Tensor luma(const adjoint::Tensor& rgb);
/// Half the size by antialiased bicubic interpolation with a = -0.5, rounded to 8 bits: (3, H / 2, W / 2).
adjoint::Tensor halved(const adjoint::Tensor& rgb);

/// 10 log10(1 / mean squared error) in dB, over (1, H, W) clamped to [0, 1], a border of 2 pixels left out.
double psnr(const adjoint::Tensor& image, const adjoint::Tensor& reference);

/// A picture in both resolutions, luma only.
struct LumaPair {
  adjoint::Tensor low, high;  // (1, h, w), (1, 2 h, 2 w)
};
/// float32.
LumaPair luma_pair(const adjoint::Tensor& rgb);

/// Random pieces of pictures, turned and mirrored: example.input (1, patch, patch), target (1, 2 patch, 2 patch). Lumas
/// are kept in memory as 8 bits; of larger pictures, so much of the middle that a gigapixel holds all of them.
class Patches final : public adjoint::data::Dataset {
 public:
  /// `patch` in low-resolution pixels; `size` examples make an epoch. Throws Error where no picture is large enough.
  Patches(const PictureSet& pictures, std::int64_t patch, std::int64_t size);

  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;
  /// Of all lumas kept: equal for equal pictures, so that a run is not resumed with others.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<LumaPair> pairs_;
  std::vector<std::int64_t> last_pixel_;  // running total of pixels: larger pictures are drawn more often
  std::int64_t patch_, size_;
  std::uint64_t fingerprint_ = 0;
};

/// Mean PSNR over pairs, in dB.
struct Quality {
  double bicubic = 0.0;
  double adjoint = 0.0;
};
Quality measure(const Model& model, const LumaPair& pair, adjoint::Device device);
Quality measure(const Model& model, const std::vector<LumaPair>& pairs, adjoint::Device device);

}  // namespace super_resolution
