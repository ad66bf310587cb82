// The sources of examples: the Dataset interface, and a folder of pictures.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/example.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace adjoint::data {

/// A numbered set of examples. Several threads may call get() concurrently.
class ADJOINT_API Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset();

  virtual std::int64_t size() const = 0;
  /// Example `index` in [0, size()). Randomness comes from `generator`, or from the thread's default generator (rand,
  /// randn, uniform_, ...). The loader seeds both for every example from its seed, the epoch and the example's number
  /// (with a sampler also its place in the epoch), so threads do not change the result.
  virtual Example get(std::int64_t index, Generator& generator) const = 0;
  /// get() with this thread's default generator; -1 is the last example. Throws Error outside.
  Example operator[](std::int64_t index) const;
};

/// A path that could not be read, and the reason.
struct PassedOver {
  std::filesystem::path path;
  std::string reason;
};

/// Every regular file below `folder` that begins like a PNG or JPEG file, with any name; sorted by path, byte by byte.
/// Links are followed; a folder that several names reach is visited once, by its own name if it has one below `folder`.
/// Skips folders and files that cannot be read, links that lead nowhere or to themselves, and files that are named
/// .png, .jpg or .jpeg but begin otherwise; if `passed_over` is given, they are listed in it, sorted in the same way.
/// Throws Error if `folder` is not a folder or cannot be listed.
ADJOINT_API std::vector<std::filesystem::path> list_images(const std::filesystem::path& folder,
                                                           std::vector<PassedOver>* passed_over = nullptr);

/// Turns a picture (C, H, W) into an example: crops, flips, scales, splits.
using ImageTransform = std::function<Example(const Tensor& image, Generator& generator)>;

struct ImageFolderOptions {
  /// .channels, .dtype and .max_pixels of every picture.
  ReadImageOptions read = {.channels = Channels::kRGB, .dtype = kFloat32};
  /// Selects the part of each picture that is read, in place of .read.window; if empty, all of it. Choosing a random
  /// crop here and not in .transform saves a copy of the whole picture. Must be safe to call from several threads.
  ImageWindow window = {};
  /// Applied to each picture, or to that part; if empty, examples are {picture, undefined}. Must be safe to call from
  /// several threads.
  ImageTransform transform = {};
};

/// The pictures in a folder and its subfolders; see list_images. Each is read on request.
class ADJOINT_API ImageFolder final : public Dataset {
 public:
  /// Throws Error if the folder holds no picture.
  explicit ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Example get(std::int64_t index, Generator& generator) const override;
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  /// The other entries of the folder, which could not be read.
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }

 private:
  std::vector<PassedOver> passed_over_;
  std::vector<std::filesystem::path> paths_;
  ImageFolderOptions options_;
};

}  // namespace adjoint::data
