// Listing and reading folders of pictures.
#include <adjoint/data/dataset.h>

#include <adjoint/core/check.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

bool begins_as_image(const fs::path& path) {
  std::array<char, 8> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(first.data());
  return image_format({bytes, static_cast<std::size_t>(file.gcount())}).has_value();
}

}  // namespace

Dataset::~Dataset() = default;

std::vector<fs::path> list_images(const fs::path& folder) {
  std::vector<fs::path> paths;
  try {
    ADJOINT_CHECK(fs::is_directory(folder), "list_images: '{}' must be a folder", folder.string());
    for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
      if (entry.is_regular_file() && begins_as_image(entry.path())) paths.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    fail("list_images: cannot list '{}': {}", folder.string(), error.code().message());
  }
  std::sort(paths.begin(), paths.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return paths;
}

ImageFolder::ImageFolder(const fs::path& folder, ImageFolderOptions options)
    : paths_(list_images(folder)), options_(std::move(options)) {
  ADJOINT_CHECK(!paths_.empty(), "ImageFolder: '{}' must hold at least one PNG or JPEG file; got none",
                folder.string());
}

Example ImageFolder::get(std::int64_t index, Generator& generator) const {
  ADJOINT_CHECK(index >= 0 && index < size(), "ImageFolder: index must be from 0 to {}; got {}", size() - 1, index);
  const Tensor image = read_image(paths_[static_cast<std::size_t>(index)], options_.read);
  return options_.transform ? options_.transform(image, generator) : Example{image, {}};
}

}  // namespace adjoint::data
