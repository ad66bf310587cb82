// Where examples come from: the Dataset interface, and a folder of pictures.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tensor.h>
#include <adjoint/data/example.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace adjoint::data {

/// A numbered set of examples. get() is called from several threads at once.
class ADJOINT_API Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset();

  virtual std::int64_t size() const = 0;
  /// Example `index` in [0, size()). Randomness comes from `generator`, or from the thread's default generator (rand,
  /// randn, uniform_, ...). The loader seeds both anew for every example from its seed, the epoch and the example's
  /// number (with a sampler its place in the epoch too): threads change nothing.
  virtual Example get(std::int64_t index, Generator& generator) const = 0;
};

/// What could not be looked at, and why.
struct PassedOver {
  std::filesystem::path path;
  std::string reason;
};

/// Every regular file below `folder` that begins as a PNG or JPEG file does, whatever its name; sorted by path, byte by
/// byte. Links are followed; a folder that is reached by several names is looked into once, by its own name where it
/// has one below `folder`. Folders and files that cannot be read, links that lead nowhere or to themselves, and files
/// that are named .png, .jpg or .jpeg and begin otherwise are passed over, and told in `passed_over`, where it is
/// given, sorted likewise. Throws Error for what is no folder or cannot be listed.
ADJOINT_API std::vector<std::filesystem::path> list_images(const std::filesystem::path& folder,
                                                           std::vector<PassedOver>* passed_over = nullptr);

/// Turns a picture (C, H, W) into an example: crops, flips, scales, splits.
using ImageTransform = std::function<Example(const Tensor& image, Generator& generator)>;

struct ImageFolderOptions {
  /// .channels, .dtype and .max_pixels of every picture.
  ReadImageOptions read = {.channels = Channels::kRGB, .dtype = kFloat32};
  /// The part of each picture that is read, in place of .read.window; none reads all of it. A crop that is drawn here
  /// and not in .transform spares a copy of the whole. Must be safe to call from several threads.
  ImageWindow window = {};
  /// Applied to each picture, or to that part; none gives {picture, undefined}. Must be safe to call from several
  /// threads.
  ImageTransform transform = {};
};

/// The pictures of a folder and the folders in it; see list_images. Each is read when it is asked for.
class ADJOINT_API ImageFolder final : public Dataset {
 public:
  /// Throws Error where the folder holds no picture.
  explicit ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Example get(std::int64_t index, Generator& generator) const override;
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  /// What the folder holds beside them that could not be read.
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }

 private:
  std::vector<PassedOver> passed_over_;
  std::vector<std::filesystem::path> paths_;
  ImageFolderOptions options_;
};

}  // namespace adjoint::data
