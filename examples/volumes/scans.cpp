#include "scans.h"

#include "common/paint.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace volumes {
namespace {

namespace fs = std::filesystem;
using adjoint::Tensor;
using examples::Dice;

constexpr float kPi = std::numbers::pi_v<float>;
enum Class : std::uint8_t { kBackground, kBlob, kTube };

[[noreturn]] void fail(const std::string& message) { throw adjoint::Error("volumes: " + message); }

struct Vec {
  float z = 0, y = 0, x = 0;
};
Vec operator+(Vec a, Vec b) { return {a.z + b.z, a.y + b.y, a.x + b.x}; }
Vec operator-(Vec a, Vec b) { return {a.z - b.z, a.y - b.y, a.x - b.x}; }
Vec operator*(float s, Vec v) { return {s * v.z, s * v.y, s * v.x}; }
float dot(Vec a, Vec b) { return a.z * b.z + a.y * b.y + a.x * b.x; }
float length(Vec v) { return std::sqrt(dot(v, v)); }

Vec direction(Dice& dice) {
  const float z = dice.between(-1, 1), turn = dice.between(0, 2 * kPi), r = std::sqrt(std::max(0.0F, 1 - z * z));
  return {z, r * std::sin(turn), r * std::cos(turn)};
}

/// A volume being drawn: signals, and the class of each voxel.
class Drawing {
 public:
  Drawing(std::int64_t depth, std::int64_t height, std::int64_t width)
      : depth_(depth),
        height_(height),
        width_(width),
        signal(static_cast<std::size_t>(depth * height * width), 0.35F),
        classes(signal.size(), kBackground) {}

  Vec anywhere(Dice& dice) const {
    const auto along = [&](std::int64_t extent) { return dice.between(0, static_cast<float>(extent)); };
    const float z = along(depth_), y = along(height_);
    return {z, y, along(width_)};
  }

  /// Draws inside the box with coverage clamp(0.5 - distance(p), 0, 1): `distance` is negative inside, in voxels.
  template <class Distance>
  void draw(Vec low, Vec high, const Distance& distance, float brightness, Class kind) {
    const auto first = [](float v) { return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(v)) - 1); };
    const auto last = [](float v, std::int64_t top) {
      return std::min(top, static_cast<std::int64_t>(std::ceil(v)) + 1);
    };
    for (std::int64_t z = first(low.z); z < last(high.z, depth_); ++z) {
      for (std::int64_t y = first(low.y); y < last(high.y, height_); ++y) {
        for (std::int64_t x = first(low.x); x < last(high.x, width_); ++x) {
          const Vec p{static_cast<float>(z) + 0.5F, static_cast<float>(y) + 0.5F, static_cast<float>(x) + 0.5F};
          const float coverage = std::clamp(0.5F - distance(p), 0.0F, 1.0F);
          if (coverage <= 0.0F) continue;
          const auto i = static_cast<std::size_t>((z * height_ + y) * width_ + x);
          signal[i] = std::lerp(signal[i], brightness, coverage);
          if (coverage >= 0.5F) classes[i] = kind;
        }
      }
    }
  }

  /// Calls f(i, p from -1 to 1) for each voxel.
  template <class F>
  void each(const F& f) const {
    const auto place = [](std::int64_t at, std::int64_t extent) {
      return (2.0F * static_cast<float>(at) + 1.0F) / static_cast<float>(extent) - 1.0F;
    };
    std::size_t i = 0;
    for (std::int64_t z = 0; z < depth_; ++z) {
      for (std::int64_t y = 0; y < height_; ++y) {
        for (std::int64_t x = 0; x < width_; ++x) f(i++, Vec{place(z, depth_), place(y, height_), place(x, width_)});
      }
    }
  }

 private:
  std::int64_t depth_, height_, width_;

 public:
  std::vector<float> signal;
  std::vector<std::uint8_t> classes;
};

/// A vector of a random direction and length.
Vec vector(Dice& dice, float least, float most) {
  const float size = dice.between(least, most);  // numbers are drawn in one order on every machine
  return size * direction(dice);
}

/// An ellipsoid with a wavy surface.
void draw_blob(Drawing& drawing, Dice& dice, float radius, Class kind) {
  const float brightness = kind == kBlob ? dice.between(0.6F, 0.95F) : dice.between(0.2F, 0.5F);
  const Vec centre = drawing.anywhere(dice), wave = vector(dice, 0.2F, 0.5F);
  const std::array stretch{dice.between(0.7F, 1.3F), dice.between(0.7F, 1.3F), dice.between(0.7F, 1.3F)};
  const float height = dice.between(0.0F, 0.15F) * radius, phase = dice.between(0, 2 * kPi);
  const float reach = 1.5F * radius + 1.0F;
  const Vec box{reach, reach, reach};
  drawing.draw(
      centre - box, centre + box,
      [&](Vec p) {
        const Vec q = p - centre;
        const float r = length({q.z / stretch[0], q.y / stretch[1], q.x / stretch[2]});
        return r - radius + height * std::sin(phase + dot(p, wave));
      },
      brightness, kind);
}

/// A bent line of round segments, which may branch.
void draw_tube(Drawing& drawing, Dice& dice, Vec from, Vec heading, float radius, float brightness, int branches) {
  const Vec bend = 0.15F * direction(dice);
  for (std::int64_t i = dice.integer(8, 20); i > 0; --i) {
    heading = heading + bend + 0.15F * direction(dice);
    heading = (1.0F / length(heading)) * heading;
    const Vec to = from + 3.0F * heading, along = to - from;
    const Vec low{std::min(from.z, to.z) - radius, std::min(from.y, to.y) - radius, std::min(from.x, to.x) - radius};
    const Vec high{std::max(from.z, to.z) + radius, std::max(from.y, to.y) + radius, std::max(from.x, to.x) + radius};
    drawing.draw(
        low, high,
        [&](Vec p) {
          const float t = std::clamp(dot(p - from, along) / dot(along, along), 0.0F, 1.0F);
          return length(p - from - t * along) - radius;
        },
        brightness, kTube);
    from = to;
    if (branches > 0 && dice.chance(0.1F)) {
      draw_tube(drawing, dice, from, heading + direction(dice), 0.8F * radius, brightness, branches - 1);
    }
  }
}

/// A normal number, by Box and Muller.
float normal(Dice& dice) {
  const float u = dice.between(1e-7F, 1.0F);
  return std::sqrt(-2.0F * std::log(u)) * std::cos(dice.between(0, 2 * kPi));
}

void add_scanner(Drawing& drawing, Dice& dice) {
  const Vec shade = vector(dice, 0.0F, 0.3F), ripple = vector(dice, 1.0F, 3.0F);
  const float phase = dice.between(0, 2 * kPi), noise = dice.between(0.03F, 0.09F);
  drawing.each([&](std::size_t i, Vec p) {
    const float field = 1.0F + dot(shade, p) + 0.1F * std::sin(phase + dot(ripple, p));
    const float real = drawing.signal[i] * field + noise * normal(dice), imaginary = noise * normal(dice);
    drawing.signal[i] = std::hypot(real, imaginary);
  });
}

/// The part of a file's name before its extension; empty if it is not the name of a volume.
std::string stem_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const char* extension : {".nii.gz", ".nii", ".npy"}) {
    if (name.size() > std::string_view(extension).size() && name.ends_with(extension))
      return name.substr(0, name.size() - std::string_view(extension).size());
  }
  return {};
}

/// Reads values as the file holds them.
Tensor read_values(const fs::path& path) {
  if (stem_of(path).empty()) fail(fmt::format("'{}' must be named .npy, .nii or .nii.gz", path.string()));
  const bool is_npy = path.extension() == ".npy";
  const Tensor values = is_npy ? adjoint::data::read_npy(path) : adjoint::data::read_nifti(path).values;
  if (values.dim() != 3 || values.numel() == 0) {
    fail(fmt::format("'{}' must hold a volume of three axes; got {}", path.string(),
                     adjoint::to_string(values.shape())));
  }
  return values;
}

Tensor read_mask(const fs::path& path) {
  const Tensor values = read_values(path).to(adjoint::kFloat64);
  Tensor mask = Tensor::empty(values.shape(), {.dtype = adjoint::kUInt8});
  const auto* in = values.data<double>();
  auto* out = mask.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const bool is_class = in[i] >= 0.0 && in[i] <= 255.0 && in[i] == std::floor(in[i]);
    if (!is_class) fail(fmt::format("'{}' must hold classes from 0 to 254, or 255; got {}", path.string(), in[i]));
    out[i] = static_cast<std::uint8_t>(in[i]);
  }
  return mask.unsqueeze(0);
}

std::vector<fs::path> volumes_below(const std::string& folder) {
  if (!fs::is_directory(folder)) fail(fmt::format("'{}' must be a folder", folder));
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !stem_of(entry.path()).empty()) found.push_back(entry.path());
  }
  if (found.empty()) fail(fmt::format("'{}' holds no .npy, .nii or .nii.gz file", folder));
  std::sort(found.begin(), found.end());
  return found;
}

fs::path mask_of(const fs::path& scan, const fs::path& images, const fs::path& masks) {
  const fs::path below = (masks / scan.lexically_relative(images)).parent_path() / stem_of(scan);
  for (const char* extension : {".nii.gz", ".nii", ".npy"}) {
    if (fs::path path = below.string() + extension; fs::exists(path)) return path;
  }
  fail(fmt::format("'{}' must have a mask; there is no file '{}' with .npy, .nii or .nii.gz", scan.string(),
                   below.string()));
}

}  // namespace

const std::vector<std::string>& scan_classes() {
  static const std::vector<std::string> names{"background", "blob", "tube"};
  return names;
}

Tensor standardised(const Tensor& volume) {
  const Tensor wide = volume.to(adjoint::kFloat64), centred = wide - wide.mean();
  const double deviation = std::sqrt((centred * centred).mean().item<double>());
  return (centred * (deviation > 0.0 ? 1.0 / deviation : 1.0)).to(adjoint::kFloat32);
}

Scan drawn_scan(std::uint64_t number, std::int64_t depth, std::int64_t height, std::int64_t width) {
  Dice dice(number);
  Drawing drawing(depth, height, width);
  // The number per voxel is the same in volumes of every size.
  const auto count = [&](float low, float high) {
    const float share = static_cast<float>(depth * height * width) / (32.0F * 32.0F * 32.0F);
    return static_cast<std::int64_t>(std::ceil(dice.between(low, high) * share));
  };
  for (std::int64_t i = count(1, 4); i > 0; --i) draw_blob(drawing, dice, dice.between(6, 14), kBackground);
  for (std::int64_t i = count(2, 5); i > 0; --i) draw_blob(drawing, dice, dice.log_between(3, 8), kBlob);
  for (std::int64_t i = count(1, 3); i > 0; --i) {
    const Vec from = drawing.anywhere(dice), heading = direction(dice);
    const float radius = dice.between(1.0F, 1.8F), brightness = dice.between(0.6F, 0.95F);
    draw_tube(drawing, dice, from, heading, radius, brightness, 2);
  }
  add_scanner(drawing, dice);
  const adjoint::Shape shape{1, depth, height, width};
  Tensor mask = Tensor::empty(shape, {.dtype = adjoint::kUInt8});
  std::copy(drawing.classes.begin(), drawing.classes.end(), mask.mutable_data<std::uint8_t>());
  return {standardised(Tensor::from_vector(drawing.signal, shape)), mask, fmt::format("scan {}", number)};
}

Tensor read_volume(const fs::path& path) {
  const Tensor values = read_values(path).to(adjoint::kFloat32).unsqueeze(0);
  const auto* first = values.data<float>();
  const auto* const found =
      std::find_if(first, first + values.numel(), [](float value) { return !std::isfinite(value); });
  if (found != first + values.numel())
    fail(fmt::format("'{}' must hold finite numbers; got {}", path.string(), *found));
  return values;
}

MaskedScans read_masked(const std::string& images, const std::string& masks) {
  MaskedScans found;
  std::int64_t largest = 0;
  for (const fs::path& path : volumes_below(images)) {
    const fs::path mask_path = mask_of(path, images, masks);
    Scan scan{standardised(read_volume(path)), read_mask(mask_path), path.string()};
    if (scan.mask.shape() != scan.volume.shape()) {
      fail(fmt::format("'{}' must have the size of '{}', {}; got {}", mask_path.string(), scan.name,
                       adjoint::to_string(scan.volume.squeeze(0).shape()),
                       adjoint::to_string(scan.mask.squeeze(0).shape())));
    }
    const auto* values = scan.mask.data<std::uint8_t>();
    for (std::int64_t i = 0; i < scan.mask.numel(); ++i) {
      if (values[i] != kIgnored) largest = std::max<std::int64_t>(largest, values[i]);
    }
    found.scans.push_back(std::move(scan));
  }
  if (largest == 0)
    fail(fmt::format("masks in '{}' must hold the classes 0, 1, ...; got only 0 and 255 (not counted)", masks));
  found.classes = largest + 1;
  return found;
}

}  // namespace volumes
