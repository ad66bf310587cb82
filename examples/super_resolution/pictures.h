// The sources of pictures and the data made from them: low resolutions, luma, patches to train on, PSNR.
#pragma once

#include "model.h"

#include <adjoint/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace super_resolution {

/// A picture in both resolutions, luma only.
struct LumaPair {
  adjoint::Tensor low, high;  // (1, h, w), (1, scale h, scale w)
};

/// A numbered set of pictures to be shrunk by `scale`: files, or made ones.
class PictureSet {
 public:
  /// Throws Error for a file that cannot be read, when it is asked for.
  static PictureSet of_files(std::vector<std::filesystem::path> paths, std::int64_t scale);
  /// Pictures number first, first + 1, ... of synthetic.h, each height x width.
  static PictureSet synthetic(std::uint64_t first, std::int64_t count, std::int64_t extent, std::int64_t scale);

  /// From now on, of a picture of more pixels than its share of `total_pixels` (at least 4096) only the middle.
  void limit(std::int64_t total_pixels);
  std::int64_t size() const { return count_; }
  std::int64_t scale() const { return scale_; }
  std::string name(std::int64_t i) const;
  /// `convert(rgb(i))` of every picture, in parallel. Pictures that cannot be read or are too small leave the set, each
  /// with a line on standard error that names it. Throws Error if none is left.
  std::vector<LumaPair> read(const std::function<LumaPair(const adjoint::Tensor& rgb)>& convert);
  /// (3, H, W), uint8, H and W multiples of the scale: last rows and columns that are too many are left out.
  adjoint::Tensor rgb(std::int64_t i) const;

 private:
  std::vector<std::filesystem::path> paths_;
  std::uint64_t first_ = 0;
  std::int64_t scale_ = 2, count_ = 0, extent_ = 0;
  std::int64_t max_pixels_ = std::numeric_limits<std::int64_t>::max();  // of one picture
};

/// data::list_images; skipped files are named on standard error. Throws Error if there are no pictures.
std::vector<std::filesystem::path> listed(const std::filesystem::path& folder);

struct Split {
  PictureSet training, validation;
};
/// The pictures of `training` and `validation`; skipped files are named on standard error. If `validation` is empty,
/// every eighth of `training`'s, at least one, is kept for it. Throws Error if a picture would be in both, or one of
/// the sets would be empty.
Split split_folder(const std::filesystem::path& training, const std::filesystem::path& validation, std::int64_t scale);

/// BT.601 luma (1, H, W), float32 in [0, 1], of a picture (3, H, W), uint8.
adjoint::Tensor luma(const adjoint::Tensor& rgb);
/// Smaller by antialiased bicubic interpolation with a = -0.5, rounded to 8 bits: (3, H / scale, W / scale).
adjoint::Tensor shrunk(const adjoint::Tensor& rgb, std::int64_t scale);

/// 10 log10(1 / mean squared error) in dB, over (1, H, W) clamped to [0, 1], a border of so many pixels left out.
double psnr(const adjoint::Tensor& image, const adjoint::Tensor& reference, std::int64_t border);
/// The structural similarity (adjoint::ssim) of the same pixels; if they are fewer than 11 in a direction, its window
/// is the largest that fits.
double ssim(const adjoint::Tensor& image, const adjoint::Tensor& reference, std::int64_t border);

/// Of a picture (3, H, W), uint8; float32.
LumaPair luma_pair(const adjoint::Tensor& rgb, std::int64_t scale);

/// Random pieces of pictures, turned and mirrored: example.input (1, patch, patch), target (1, scale patch, scale
/// patch). Lumas are kept in memory as 8 bits.
class Patches final : public adjoint::data::Dataset {
 public:
  /// `patch` in low-resolution pixels; `size` examples make an epoch. Throws Error if no picture is large enough.
  Patches(PictureSet pictures, std::int64_t patch, std::int64_t size);

  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;
  /// A hash of all lumas kept, which prevents a run from resuming with other pictures.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<LumaPair> pairs_;
  std::vector<std::int64_t> last_pixel_;  // running total of pixels: larger pictures are drawn more often
  std::int64_t scale_, patch_, size_;
  std::uint64_t fingerprint_ = 0;
};

struct Likeness {
  double psnr = 0.0, ssim = 0.0;
};
struct Quality {
  Likeness bicubic, adjoint;
};
/// A border of `scale` pixels is left out.
Quality measure(const Model& model, const LumaPair& pair, adjoint::Device device, bool self_ensemble = false);
Quality mean_of(const std::vector<Quality>& qualities);

}  // namespace super_resolution
