#include "common/squares.h"

#include "common/pictures.h"
#include "common/tested.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/array_files.h>
#include <adjoint/data/transforms.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/resample/resample.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

namespace examples {
namespace {

namespace data = adjoint::data;
namespace fs = std::filesystem;
using adjoint::Tensor;

// The drawn pictures for training have numbers from 2^61 on.
constexpr std::uint64_t kTrained = std::uint64_t{1} << 61U;
constexpr std::int64_t kTested = 512;

/// An endless series; the end of an epoch has no meaning.
class DrawnPictures final : public data::Dataset {
 public:
  DrawnPictures(const DrawnSet& set, std::int64_t size) : set_(set), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    return {to_signed(set_.draw(kTrained + generator.next() % kTrained).image), {}};
  }

 private:
  const DrawnSet& set_;
  std::int64_t size_;
};

/// Random pictures of a user's.
class RandomSquares final : public data::Dataset {
 public:
  RandomSquares(Tensor all, std::int64_t size) : all_(std::move(all)), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Example get(std::int64_t, adjoint::Generator& generator) const override {
    const auto at = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(all_.size(0))));
    return {to_signed(all_[at]), {}};
  }

 private:
  Tensor all_;
  std::int64_t size_;
};

bool holds(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

/// (N, 1 or 3, H, W), uint8 -> (N, 3, 32, 32), uint8.
Tensor squares_of(const data::LabelledImages& set) {
  constexpr std::int64_t kAtOnce = 1024;
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < set.images.size(0); at += kAtOnce) {
    Tensor part = set.images.narrow(0, at, std::min(kAtOnce, set.images.size(0) - at));
    if (part.size(2) != kPictureExtent || part.size(3) != kPictureExtent) {
      part = to_bytes(
          adjoint::interpolate(to_signed(part),
                               {.size = kPictureExtent, .mode = adjoint::Interpolation::kBilinear, .antialias = true}));
    }
    parts.push_back(part.expand({part.size(0), 3, kPictureExtent, kPictureExtent}).contiguous());
  }
  return adjoint::cat(parts);
}

Tensor squares_of(const std::vector<Picture>& pictures) {
  std::vector<Tensor> squares;
  squares.reserve(pictures.size());
  for (const Picture& picture : pictures) squares.push_back(square_of(picture.image));
  return adjoint::stack(squares);
}

}  // namespace

Tensor to_signed(const Tensor& bytes) { return bytes.to(adjoint::kFloat32) / 127.5 - 1.0; }

Tensor to_bytes(const Tensor& pictures) {
  return adjoint::round(adjoint::clamp(pictures.to(adjoint::kFloat32) * 127.5 + 127.5, 0.0, 255.0)).to(adjoint::kUInt8);
}

Tensor square_of(const Tensor& picture) {
  const std::int64_t h = picture.size(1), w = picture.size(2), extent = std::min(h, w);
  const Tensor middle = data::crop(picture, (h - extent) / 2, (w - extent) / 2, extent, extent);
  return data::to_uint8(
      adjoint::interpolate(data::to_float(middle),
                           {.size = kPictureExtent, .mode = adjoint::Interpolation::kBilinear, .antialias = true}));
}

Tensor drawn_batch(const DrawnSet& set, std::uint64_t first, std::int64_t count, Tensor* labels) {
  std::vector<Tensor> images;
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < count; ++i) {
    DrawnPicture picture = set.draw(first + static_cast<std::uint64_t>(i));
    images.push_back(std::move(picture.image));
    classes.push_back(picture.label);
  }
  if (labels != nullptr) *labels = Tensor::from_vector(classes, {count}, {.dtype = adjoint::kInt64});
  return to_signed(adjoint::stack(images));
}

SquareSource::SquareSource(const std::string& program, const std::string& path, const std::string& drawn_name,
                           std::int64_t size, bool hold_out)
    : drawn(drawn_set(drawn_name)) {
  if (path.empty()) {
    tests = to_bytes(drawn_batch(drawn, 0, tested(kTested)));
    training = std::make_unique<DrawnPictures>(drawn, size);
    return;
  }
  if (holds(path, "train-images-idx3-ubyte") || holds(path, "train-images-idx3-ubyte.gz")) {
    pictures = squares_of(data::read_mnist(path));
    tests = squares_of(data::read_mnist(path, false));
  } else if (holds(path, "data_batch_1.bin")) {
    pictures = squares_of(data::read_cifar10(path));
    tests = squares_of(data::read_cifar10(path, false));
  } else {
    const std::vector<Picture> found = read_pictures(program, path);
    if (found.size() < 2)
      throw adjoint::Error(fmt::format("{}: '{}' must hold at least 2 pictures; got 1", program, path));
    const auto [trained, held_out] = hold_out ? split(program, found) : std::pair(found, std::vector<Picture>{});
    pictures = squares_of(trained);
    if (hold_out) tests = squares_of(held_out);
  }
  fingerprint = examples::fingerprint({{"", tests.defined() ? adjoint::cat({pictures, tests}) : pictures}});
  training = std::make_unique<RandomSquares>(pictures, size);
}

std::string SquareSource::description() const {
  return pictures.defined() ? fmt::format("{} pictures", pictures.size(0)) : "drawn " + drawn.name;
}

Tensor tiled(const Tensor& pictures, std::int64_t columns) {
  constexpr std::int64_t kGap = 2;
  const std::int64_t count = pictures.size(0), h = pictures.size(2) + kGap, w = pictures.size(3) + kGap;
  if (columns < 1) throw adjoint::Error(fmt::format("tiled: columns must be at least 1; got {}", columns));
  columns = std::min(columns, count);
  const std::int64_t rows = (count + columns - 1) / columns;
  Tensor all = Tensor::full({3, rows * h + kGap, columns * w + kGap}, 255.0, {.dtype = adjoint::kUInt8});
  for (std::int64_t i = 0; i < count; ++i) {
    Tensor place = all.narrow(1, i / columns * h + kGap, h - kGap).narrow(2, i % columns * w + kGap, w - kGap);
    place.copy_(pictures[i]);
  }
  return all;
}

Tensor noise_of(std::uint64_t seed, std::int64_t count, std::int64_t latent) {
  const adjoint::GeneratorGuard guard{adjoint::Generator(seed)};
  return Tensor::randn({count, latent});
}

Tensor great_circle(const Tensor& a, const Tensor& b, std::int64_t steps) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double xx = 0.0, yy = 0.0, xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    xy += x[i] * y[i];
  }
  const double angle = std::acos(std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0)), sine = std::sin(angle);
  std::vector<Tensor> points;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double t = steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0.0;
    const bool parallel = !(sine > 1e-6);
    points.push_back(a * (parallel ? 1.0 - t : std::sin((1.0 - t) * angle) / sine) +
                     b * (parallel ? t : std::sin(t * angle) / sine));
  }
  return adjoint::stack(points);
}

Tensor great_circles(const Tensor& noise, std::int64_t rows, std::int64_t steps) {
  std::vector<Tensor> walks;
  for (std::int64_t row = 0; row < rows; ++row)
    walks.push_back(great_circle(noise[2 * row], noise[2 * row + 1], steps));
  return adjoint::cat(walks);
}

Tensor in_parts(const Tensor& x, std::int64_t most, const std::function<Tensor(const Tensor&)>& f) {
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < x.size(0); at += most)
    parts.push_back(f(x.narrow(0, at, std::min(most, x.size(0) - at))));
  return adjoint::cat(parts);
}

}  // namespace examples
