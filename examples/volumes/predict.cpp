#include "predict.h"

#include "common/classes.h"
#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image_grid.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/softmax/softmax.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace volumes {
namespace {

using adjoint::Tensor;

/// The starts of tiles: at both ends, and between at distances of at most half a tile.
std::vector<std::int64_t> starts(std::int64_t extent, std::int64_t tile) {
  const std::int64_t room = extent - tile, step = std::max<std::int64_t>(1, tile / 2);
  const std::int64_t steps = (room + step - 1) / step;
  std::vector<std::int64_t> all{0};
  for (std::int64_t i = 1; i <= steps; ++i) all.push_back(i * room / steps);
  return all;
}

/// (tile): from nearly 0 at the ends to nearly 1 in the middle, and nowhere 0.
Tensor ramp(std::int64_t tile) {
  Tensor weights = Tensor::empty({tile});
  float* w = weights.mutable_data<float>();
  for (std::int64_t i = 0; i < tile; ++i)
    w[i] = static_cast<float>(std::min(i + 1, tile - i)) / static_cast<float>(tile / 2 + 1);
  return weights;
}

struct Box {
  std::int64_t z, y, x, size;

  Tensor of(const Tensor& whole) const { return whole.narrow(1, z, size).narrow(2, y, size).narrow(3, x, size); }
};

}  // namespace

Tensor probabilities(const UNet& model, const Tensor& volume, adjoint::Device device, std::int64_t tile) {
  if (tile < 1) throw adjoint::Error(fmt::format("volumes: --tile must be at least 1; got {}", tile));
  if (model.training()) throw adjoint::Error("volumes: probabilities: the model must be in eval mode");
  const std::int64_t align = model.alignment(), size = std::max((tile + align - 1) / align, std::int64_t{2}) * align;
  std::vector<std::int64_t> behind;
  for (const std::int64_t axis : {3, 2, 1})
    behind.insert(behind.end(), {0, std::max<std::int64_t>(0, size - volume.size(axis))});
  const Tensor whole = adjoint::pad(volume, behind, adjoint::PadMode::kReplicate);
  const std::int64_t d = whole.size(1), h = whole.size(2), w = whole.size(3);
  const Tensor along = ramp(size), weight = along.reshape({1, size, 1, 1}) * along.reshape({1, 1, size, 1}) * along;
  const adjoint::MemoryFormat format = examples::format_of(model);
  Tensor sums = Tensor::zeros({model.options().classes, d, h, w}), weights = Tensor::zeros({1, d, h, w});
  for (const std::int64_t z : starts(d, size)) {
    for (const std::int64_t y : starts(h, size)) {
      for (const std::int64_t x : starts(w, size)) {
        const Box box{z, y, x, size};
        const Tensor input = examples::in_format(box.of(whole).unsqueeze(0).contiguous().to(device), format);
        const Tensor found = adjoint::softmax(model(input).to(adjoint::kFloat32), 1).to(adjoint::kCPU).squeeze(0);
        box.of(sums).add_(found * weight);
        box.of(weights).add_(weight);
      }
    }
  }
  sums = sums / weights;
  return sums.narrow(1, 0, volume.size(1)).narrow(2, 0, volume.size(2)).narrow(3, 0, volume.size(3)).contiguous();
}

Tensor slice_of(const Tensor& volume, std::int64_t z) {
  const Tensor whole = volume.contiguous(), layer = whole.select(1, z).contiguous();
  std::vector<float> sorted(whole.data<float>(), whole.data<float>() + whole.numel());
  const auto rank = [&](double part) {
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(sorted.size() - 1));
    std::nth_element(sorted.begin(), at, sorted.end());
    return *at;
  };
  const float black = rank(0.01), range = rank(0.99) - black;
  // Nearly all voxels of a scan may have one value.
  const double scale = 255.0 / (range > 0.0F ? range : 1.0F);
  const Tensor grey = ((layer - black) * scale).clamp(0.0, 255.0).to(adjoint::kUInt8);
  return grey.expand({3, layer.size(1), layer.size(2)}).contiguous();
}

Tensor layer_of(const Tensor& mask, std::int64_t z) { return mask.select(1, z).contiguous(); }

std::int64_t fullest_layer(const Tensor& mask) {
  std::int64_t best = mask.size(1) / 2, most = 0;
  for (std::int64_t z = 0; z < mask.size(1); ++z) {
    const Tensor layer = layer_of(mask, z);
    const auto* first = layer.data<std::uint8_t>();
    const std::int64_t count =
        std::count_if(first, first + layer.numel(), [](std::uint8_t c) { return c != 0 && c != examples::kIgnored; });
    if (count > most) best = z, most = count;
  }
  return best;
}

Tensor slices(const Tensor& volume, const Tensor& classes, std::int64_t count) {
  const std::int64_t depth = volume.size(1), shown = std::min(count, depth);
  std::vector<Tensor> pictures;
  for (std::int64_t i = 0; i < shown; ++i) {
    const std::int64_t z = (2 * i + 1) * depth / (2 * shown);
    pictures.push_back(examples::overlay(slice_of(volume, z), layer_of(classes, z)));
  }
  return adjoint::data::make_grid(pictures, {.nrow = 4});
}

}  // namespace volumes
