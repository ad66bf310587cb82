#include "sample.h"

#include "frechet.h"

#include <adjoint/core/error.h>
#include <adjoint/core/random.h>
#include <adjoint/ops/join/join.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gan {

using adjoint::Tensor;

Tensor noise_of(std::uint64_t seed, std::int64_t count, std::int64_t latent) {
  const adjoint::GeneratorGuard guard{adjoint::Generator(seed)};
  return Tensor::randn({count, latent});
}

Tensor generate(const Generator& model, const Tensor& noise, adjoint::Device device) {
  constexpr std::int64_t kAtOnce = 256;
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < noise.size(0); at += kAtOnce) {
    const Tensor part = noise.narrow(0, at, std::min(kAtOnce, noise.size(0) - at));
    parts.push_back(to_bytes(model(part.to(device))).to(adjoint::kCPU));
  }
  return adjoint::cat(parts);
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

Tensor tiled(const Tensor& pictures, std::int64_t columns) {
  constexpr std::int64_t kGap = 2;
  const std::int64_t count = pictures.size(0), h = pictures.size(2) + kGap, w = pictures.size(3) + kGap;
  if (columns < 1) throw adjoint::Error(fmt::format("gan: tiled: columns must be at least 1; got {}", columns));
  columns = std::min(columns, count);
  const std::int64_t rows = (count + columns - 1) / columns;
  Tensor all = Tensor::full({3, rows * h + kGap, columns * w + kGap}, 255.0, {.dtype = adjoint::kUInt8});
  for (std::int64_t i = 0; i < count; ++i) {
    Tensor place = all.narrow(1, i / columns * h + kGap, h - kGap).narrow(2, i % columns * w + kGap, w - kGap);
    place.copy_(pictures[i]);
  }
  return all;
}

}  // namespace gan
