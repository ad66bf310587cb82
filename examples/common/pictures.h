// A user's folders of pictures, in memory.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/image.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace examples {

struct Picture {
  std::string name;
  adjoint::Tensor image;  // (C, H, W), uint8
};

struct PicturesOptions {
  adjoint::data::Channels channels = adjoint::data::Channels::kRGB;
  /// Of all pictures together: of larger ones only the middle is kept.
  std::int64_t max_pixels = 1'000'000'000;
};
/// The readable pictures below the folder; each unreadable one is named, with the reason, in a line on standard error.
/// Throws Error, naming the folder, if none is left.
std::vector<Picture> read_pictures(const std::string& program, const std::filesystem::path& folder,
                                   const PicturesOptions& options = {});

/// Every eighth, at least one, is kept for tests: {training, tests}. Throws Error for fewer than two.
std::pair<std::vector<Picture>, std::vector<Picture>> split(const std::string& program,
                                                            const std::vector<Picture>& pictures);

/// FNV-1a of shapes and bytes, to check that a training resumes with its original data.
std::uint64_t fingerprint(const std::vector<Picture>& pictures);

}  // namespace examples
