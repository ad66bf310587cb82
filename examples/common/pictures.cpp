#include "common/pictures.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/data/dataset.h>
#include <adjoint/data/transforms.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace examples {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

Tensor middle(const Tensor& image, std::int64_t pixels) {
  const double shrink = std::sqrt(static_cast<double>(pixels) / static_cast<double>(image.size(1) * image.size(2)));
  if (shrink >= 1.0) return image;
  const auto part = [&](std::int64_t extent) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(extent) * shrink));
  };
  const std::int64_t h = part(image.size(1)), w = part(image.size(2));
  return data::crop(image, (image.size(1) - h) / 2, (image.size(2) - w) / 2, h, w);
}

}  // namespace

std::vector<Picture> read_pictures(const std::string& program, const std::filesystem::path& folder,
                                   const PicturesOptions& options) {
  std::vector<data::PassedOver> passed_over;
  const std::vector<std::filesystem::path> paths = data::list_images(folder, &passed_over);
  std::vector<Picture> pictures(paths.size());
  std::vector<std::string> reasons(paths.size());
  const std::int64_t share =
      std::max<std::int64_t>(options.max_pixels / std::max<std::int64_t>(std::ssize(paths), 1), std::int64_t{64} * 64);
  adjoint::parallel_for(std::ssize(paths), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      pictures[at] = {paths[at].string(), middle(data::read_image(paths[at], {.channels = options.channels}), share)};
    } catch (const adjoint::Error& error) {
      reasons[at] = error.what();
    }
  });
  for (const data::PassedOver& one : passed_over)
    fmt::print(stderr, "{}: passed over '{}': {}\n", program, one.path.string(), one.reason);
  std::vector<Picture> found;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (reasons[i].empty())
      found.push_back(std::move(pictures[i]));
    else
      fmt::print(stderr, "{}: passed over: {}\n", program, reasons[i]);
  }
  if (found.empty())
    throw adjoint::Error(fmt::format("{}: '{}' holds no PNG or JPEG file that can be read", program, folder.string()));
  return found;
}

std::pair<std::vector<Picture>, std::vector<Picture>> split(const std::string& program,
                                                            const std::vector<Picture>& pictures) {
  constexpr std::size_t kEvery = 8;
  if (pictures.size() < 2) {
    throw adjoint::Error(
        fmt::format("{}: there must be at least 2 pictures, one of them to test on; got {}", program, pictures.size()));
  }
  std::pair<std::vector<Picture>, std::vector<Picture>> parts;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const bool tested = i % kEvery == kEvery / 2 || (pictures.size() <= kEvery / 2 && i + 1 == pictures.size());
    (tested ? parts.second : parts.first).push_back(pictures[i]);
  }
  return parts;
}

std::uint64_t fingerprint(const std::vector<Picture>& pictures) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto take = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
  for (const Picture& picture : pictures) {
    for (const std::int64_t extent : picture.image.shape()) take(static_cast<std::uint64_t>(extent));
    const auto* bytes = picture.image.data<std::uint8_t>();
    for (std::int64_t i = 0; i < picture.image.numel(); ++i) take(bytes[i]);
  }
  return hash;
}

}  // namespace examples
