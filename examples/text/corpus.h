// Text as bytes: files and folders of a user, or the licences that Debian ships, split for training and tests.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace text {

/// The licences that Debian's package base-files installs.
inline const std::filesystem::path kLicences = "/usr/share/common-licenses";

/// The bytes (L), uint8, of the files in order; a folder means the regular files below it, sorted by path. Links below
/// a folder are not followed, because their targets would count twice. Files below a folder that cannot be read or are
/// empty are named on standard error and skipped. Throws Error, naming the path, for such a file that is named itself,
/// for a folder without any other file, and if there is no path.
adjoint::Tensor read_text(const std::vector<std::string>& paths);

struct Corpus {
  adjoint::Tensor training, held_out;  // (L), uint8

  /// The text of `paths`, with that of `tests` held out; if `tests` is empty, the last tenth of each path's text is.
  static Corpus of(const std::vector<std::string>& paths, const std::string& tests);
  /// The licences in `folder`. Apache-2.0 and CC0-1.0 are held out, because they share the least with the others.
  /// Throws Error, with the remedy, if the folder lacks them.
  static Corpus licences(const std::filesystem::path& folder = kLicences);

  /// FNV-1a of all bytes.
  std::uint64_t fingerprint() const;
};

/// Bits per byte of `text` under the frequencies of bytes in `training`, each counted once more than it occurs. The
/// byte's own frequency is all that such a model of order 0 knows.
double order_0(const adjoint::Tensor& training, const adjoint::Tensor& text);

/// Random windows (bytes) of a text, uint8, with equal probability for every place. The text must be at least as long.
class Windows final : public adjoint::data::Dataset {
 public:
  Windows(const adjoint::Tensor& text, std::int64_t bytes, std::int64_t size)
      : text_(text), bytes_(bytes), size_(size) {}
  std::int64_t size() const override { return size_; }
  adjoint::data::Example get(std::int64_t index, adjoint::Generator& generator) const override;

 private:
  adjoint::Tensor text_;
  std::int64_t bytes_, size_;
};

}  // namespace text
