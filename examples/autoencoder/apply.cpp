#include "apply.h"

#include "common/squares.h"

#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/image.h>

#include <algorithm>
#include <vector>

namespace autoencoder {
namespace {

using adjoint::Tensor;

constexpr std::int64_t kAtOnce = 256;

template <class F>
Tensor by_parts(const Tensor& of, F f) {
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < of.size(0); at += kAtOnce)
    parts.push_back(f(of.narrow(0, at, std::min(kAtOnce, of.size(0) - at))).to(adjoint::kCPU).contiguous());
  return adjoint::cat(parts);
}

}  // namespace

Tensor compress(const Model& model, const Tensor& pictures, adjoint::Device device) {
  return by_parts(pictures, [&](const Tensor& part) { return model.compress(examples::to_signed(part.to(device))); });
}

Tensor decompress(const Model& model, const Tensor& kept, adjoint::Device device) {
  return by_parts(kept, [&](const Tensor& part) { return examples::to_bytes(model.decompress(part.to(device))); });
}

Tensor reconstruct(const Model& model, const Tensor& pictures, adjoint::Device device) {
  return decompress(model, compress(model, pictures, device), device);
}

Tensor sample(const Model& model, std::int64_t count, std::uint64_t seed, adjoint::Device device) {
  const adjoint::GeneratorGuard guard{adjoint::Generator(seed)};
  std::vector<Tensor> parts;
  for (std::int64_t at = 0; at < count; at += kAtOnce)
    parts.push_back(
        examples::to_bytes(model.sample(std::min(kAtOnce, count - at), device)).to(adjoint::kCPU).contiguous());
  return adjoint::cat(parts);
}

Tensor walk(const Model& model, const Tensor& from, const Tensor& to, std::int64_t steps, adjoint::Device device) {
  const Tensor ends = model.encode(examples::to_signed(adjoint::stack({from, to}).to(device)));
  std::vector<Tensor> points;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double t = steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0.0;
    points.push_back(adjoint::lerp(ends[0], ends[1], t));
  }
  return by_parts(adjoint::stack(points), [&](const Tensor& part) { return examples::to_bytes(model.decode(part)); });
}

double psnr_of(const Tensor& pictures, const Tensor& truth) {
  const Tensor each = adjoint::psnr(examples::to_signed(pictures), examples::to_signed(truth),
                                    {.data_range = 2.0, .reduction = adjoint::Reduction::kNone});
  constexpr double kMost = 100.0;  // dB; exact reconstructions would have infinity
  return adjoint::clamp_max(each, kMost).mean().item<float>();
}

Tensor compared(const Tensor& pictures, const Tensor& reconstructed, std::int64_t columns) {
  std::vector<Tensor> rows;
  for (std::int64_t at = 0; at < pictures.size(0); at += columns) {
    const std::int64_t count = std::min(columns, pictures.size(0) - at);
    for (const Tensor& of : {pictures, reconstructed}) {
      rows.push_back(of.narrow(0, at, count));
      if (count < columns && at > 0) {  // a row that is not full still begins the next one on the left
        rows.push_back(
            Tensor::full({columns - count, of.size(1), of.size(2), of.size(3)}, 255.0, {.dtype = adjoint::kUInt8}));
      }
    }
  }
  return examples::tiled(adjoint::cat(rows), std::min(columns, pictures.size(0)));
}

}  // namespace autoencoder
