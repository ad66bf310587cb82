#include "pictures.h"

#include "synthetic.h"
#include "upscale.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/data/transforms.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/image.h>
#include <adjoint/ops/resample/resample.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

namespace super_resolution {
namespace {

namespace data = adjoint::data;
namespace fs = std::filesystem;
using adjoint::Tensor;

[[noreturn]] void fail(const std::string& message) { throw adjoint::Error("super_resolution: " + message); }

/// Cuts off the last rows and columns that the scale does not divide.
Tensor whole_times(const Tensor& image, std::int64_t scale) {
  const std::int64_t h = image.size(1) / scale * scale, w = image.size(2) / scale * scale;
  return h == image.size(1) && w == image.size(2) ? image : data::crop(image, 0, 0, h, w);
}

Tensor middle(const Tensor& image, std::int64_t pixels, std::int64_t scale) {
  const double shrink = std::sqrt(static_cast<double>(pixels) / static_cast<double>(image.size(1) * image.size(2)));
  if (shrink >= 1.0) return image;
  const auto part = [&](std::int64_t extent) {
    return std::max(scale, static_cast<std::int64_t>(static_cast<double>(extent) * shrink) / scale * scale);
  };
  const std::int64_t h = part(image.size(1)), w = part(image.size(2));
  return data::crop(image, (image.size(1) - h) / 2, (image.size(2) - w) / 2, h, w);
}

// FNV-1a.
std::uint64_t hash_of(const Tensor& bytes, std::uint64_t hash) {
  const auto* data = bytes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) hash = (hash ^ data[i]) * 0x100000001b3U;
  return hash;
}

}  // namespace

PictureSet PictureSet::of_files(std::vector<fs::path> paths, std::int64_t scale) {
  PictureSet set;
  set.scale_ = scale;
  set.count_ = std::ssize(paths);
  set.paths_ = std::move(paths);
  return set;
}

PictureSet PictureSet::synthetic(std::uint64_t first, std::int64_t count, std::int64_t extent, std::int64_t scale) {
  PictureSet set;
  set.scale_ = scale;
  set.first_ = first;
  set.count_ = count;
  set.extent_ = extent;
  return set;
}

void PictureSet::limit(std::int64_t total_pixels) {
  max_pixels_ = std::max<std::int64_t>(total_pixels / std::max<std::int64_t>(count_, 1), 64 * 64);
}

std::string PictureSet::name(std::int64_t i) const {
  return paths_.empty() ? fmt::format("made {}", first_ + static_cast<std::uint64_t>(i))
                        : paths_[static_cast<std::size_t>(i)].string();
}

Tensor PictureSet::rgb(std::int64_t i) const {
  if (paths_.empty()) {
    const Tensor picture = synthetic_picture(first_ + static_cast<std::uint64_t>(i), extent_, extent_);
    return middle(whole_times(picture, scale_), max_pixels_, scale_);
  }
  const Tensor image = data::read_image(paths_[static_cast<std::size_t>(i)], {.channels = data::Channels::kRGB});
  const std::int64_t too_small = 3 * scale_;  // both borders, and one low-resolution pixel
  if (std::min(image.size(1), image.size(2)) <= too_small) {
    fail(fmt::format("'{}' must be larger than {} x {} pixels; got {} x {}", name(i), too_small, too_small,
                     image.size(2), image.size(1)));
  }
  return middle(whole_times(image, scale_), max_pixels_, scale_);
}

std::vector<LumaPair> PictureSet::read(const std::function<LumaPair(const Tensor& rgb)>& convert) {
  std::vector<LumaPair> pairs(static_cast<std::size_t>(count_)), found;
  std::vector<std::string> reasons(pairs.size());
  adjoint::parallel_for(count_, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      pairs[at] = convert(rgb(i));
    } catch (const adjoint::OutOfMemoryError&) {
      throw;
    } catch (const adjoint::Error& error) {
      reasons[at] = error.what();
    }
  });
  std::vector<fs::path> paths;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!reasons[i].empty()) {
      fmt::print(stderr, "super_resolution: passed over: {}\n", reasons[i]);
      continue;
    }
    found.push_back(std::move(pairs[i]));
    if (!paths_.empty()) paths.push_back(paths_[i]);
  }
  if (found.empty()) fail(fmt::format("none of {} pictures can be read; the first is '{}'", count_, name(0)));
  count_ = std::ssize(found);
  paths_ = std::move(paths);
  return found;
}

std::vector<fs::path> listed(const fs::path& folder) {
  std::vector<data::PassedOver> passed_over;
  std::vector<fs::path> paths = data::list_images(folder, &passed_over);
  for (const data::PassedOver& one : passed_over)
    fmt::print(stderr, "super_resolution: passed over '{}': {}\n", one.path.string(), one.reason);
  if (paths.empty()) fail(fmt::format("'{}' holds no PNG or JPEG file that can be read", folder.string()));
  return paths;
}

Split split_folder(const fs::path& training, const fs::path& validation, std::int64_t scale) {
  constexpr std::size_t kEvery = 8;
  const std::vector<fs::path> all = listed(training);
  std::vector<fs::path> train, test;
  if (validation.empty()) {
    if (all.size() < 2)
      fail(fmt::format("'{}' must hold at least 2 pictures, one of them to test on; name others with --val",
                       training.string()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool held_out = i % kEvery == kEvery / 2 || (all.size() <= kEvery / 2 && i + 1 == all.size());
      (held_out ? test : train).push_back(all[i]);
    }
  } else {
    train = all;
    test = listed(validation);
    std::set<fs::path> known;
    for (const fs::path& path : train) known.insert(fs::canonical(path));
    for (const fs::path& path : test) {
      if (known.contains(fs::canonical(path)))
        fail(fmt::format("'{}' must not be in both --images and --val", path.string()));
    }
  }
  return {PictureSet::of_files(std::move(train), scale), PictureSet::of_files(std::move(test), scale)};
}

Tensor luma(const Tensor& rgb) { return data::to_channels(data::to_float(rgb), data::Channels::kGrey); }

Tensor shrunk(const Tensor& rgb, std::int64_t scale) {
  const Tensor image = data::to_float(rgb);
  return data::to_uint8(adjoint::interpolate(image, {.size = {image.size(1) / scale, image.size(2) / scale},
                                                     .mode = adjoint::Interpolation::kBicubic,
                                                     .antialias = true}));
}

double psnr(const Tensor& image, const Tensor& reference, std::int64_t border) {
  const std::int64_t h = reference.size(1), w = reference.size(2);
  const float* a = image.data<float>();
  const float* b = reference.data<float>();
  double sum = 0.0;
  for (std::int64_t y = border; y < h - border; ++y) {
    for (std::int64_t x = border; x < w - border; ++x) {
      const double difference =
          static_cast<double>(std::clamp(a[y * w + x], 0.0F, 1.0F)) - static_cast<double>(b[y * w + x]);
      sum += difference * difference;
    }
  }
  return -10.0 * std::log10(std::max(sum / static_cast<double>((h - 2 * border) * (w - 2 * border)), 1e-12));
}

double ssim(const Tensor& image, const Tensor& reference, std::int64_t border) {
  const std::int64_t h = reference.size(1) - 2 * border, w = reference.size(2) - 2 * border;
  const auto inside = [&](const Tensor& of) {
    // In float64, because in plain places variances are differences of nearly equal numbers.
    return adjoint::clamp(data::crop(of, border, border, h, w), 0.0, 1.0).to(adjoint::kFloat64).unsqueeze(0);
  };
  const std::int64_t window = std::min<std::int64_t>(11, (std::min(h, w) - 1) / 2 * 2 + 1);
  return adjoint::ssim(inside(image), inside(reference), {.window_size = window}).item<double>();
}

LumaPair luma_pair(const Tensor& rgb, std::int64_t scale) { return {luma(shrunk(rgb, scale)), luma(rgb)}; }

Patches::Patches(PictureSet pictures, std::int64_t patch, std::int64_t size)
    : scale_(pictures.scale()), patch_(patch), size_(size) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max() / scale_;
  if (patch < 1 || patch > largest || size < 1)
    fail(fmt::format("patch must be from 1 to {} and size positive; got {} and {}", largest, patch, size));
  std::vector<LumaPair> pairs = pictures.read([&](const Tensor& rgb) {
    const LumaPair pair = luma_pair(rgb, scale_);
    return LumaPair{data::to_uint8(pair.low), data::to_uint8(pair.high)};
  });
  std::int64_t pixels = 0;
  fingerprint_ = 0xcbf29ce484222325U;
  for (LumaPair& pair : pairs) {
    if (std::min(pair.low.size(1), pair.low.size(2)) < patch) continue;
    pixels += pair.low.numel();
    fingerprint_ = hash_of(pair.high, fingerprint_);
    last_pixel_.push_back(pixels);
    pairs_.push_back(std::move(pair));
  }
  if (pairs_.empty())
    fail(fmt::format("a picture to train on must have at least {} x {} pixels; no picture has", scale_ * patch,
                     scale_ * patch));
}

data::Example Patches::get(std::int64_t, adjoint::Generator& generator) const {
  const auto pixel = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(last_pixel_.back())));
  const auto found = std::upper_bound(last_pixel_.begin(), last_pixel_.end(), pixel);
  const LumaPair& pair = pairs_[static_cast<std::size_t>(found - last_pixel_.begin())];
  const auto place = [&](std::int64_t extent) {
    return static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(extent - patch_ + 1)));
  };
  const std::int64_t top = place(pair.low.size(1)), left = place(pair.low.size(2));
  const auto piece = [&](const Tensor& image, std::int64_t scale, adjoint::Generator& turns) {
    return data::to_float(
        data::random_dihedral(data::crop(image, scale * top, scale * left, scale * patch_, scale * patch_), turns));
  };
  adjoint::Generator same = generator;  // both must turn the same way
  return {piece(pair.low, 1, generator), piece(pair.high, scale_, same)};
}

Quality measure(const Model& model, const LumaPair& pair, adjoint::Device device, bool self_ensemble) {
  const std::int64_t border = model.scale();
  const auto likeness = [&](const Tensor& image) {
    return Likeness{psnr(image, pair.high, border), ssim(image, pair.high, border)};
  };
  return {likeness(bicubic(pair.low, model.scale())),
          likeness(upscale_luma(model, pair.low, device, {.self_ensemble = self_ensemble}))};
}

Quality mean_of(const std::vector<Quality>& qualities) {
  Quality mean;
  for (const Quality& one : qualities) {
    for (const auto part : {&Quality::bicubic, &Quality::adjoint}) {
      for (const auto number : {&Likeness::psnr, &Likeness::ssim})
        mean.*part.*number += one.*part.*number / static_cast<double>(qualities.size());
    }
  }
  return mean;
}

}  // namespace super_resolution
