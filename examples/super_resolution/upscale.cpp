#include "upscale.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <cstring>

namespace super_resolution {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

/// Copies rows [top, ...) and columns [left, ...) of `from` to (to_top, to_left) of `to`: h x w elements of each
/// channel.
void copy_window(const Tensor& from, std::int64_t top, std::int64_t left, Tensor& to, std::int64_t to_top,
                 std::int64_t to_left, std::int64_t h, std::int64_t w) {
  const auto bytes = static_cast<std::size_t>(adjoint::element_size(to.dtype()));
  const auto* in = static_cast<const std::byte*>(from.raw_data());
  auto* out = static_cast<std::byte*>(to.raw_mutable_data());
  for (std::int64_t c = 0; c < to.size(0); ++c) {
    for (std::int64_t y = 0; y < h; ++y) {
      const std::int64_t source = (c * from.size(1) + top + y) * from.size(2) + left;
      const std::int64_t target = (c * to.size(1) + to_top + y) * to.size(2) + to_left;
      std::memcpy(out + static_cast<std::size_t>(target) * bytes, in + static_cast<std::size_t>(source) * bytes,
                  static_cast<std::size_t>(w) * bytes);
    }
  }
}

/// Computes enlarge(part) for every tile of `image`, with the model's radius around it where the image has that much,
/// and joins the results.
template <class F>
Tensor by_tiles(const Model& model, const Tensor& image, std::int64_t tile, F enlarge) {
  if (tile < 1) throw adjoint::Error("super_resolution: a tile must have at least one pixel");
  const std::int64_t h = image.size(1), w = image.size(2), scale = model.scale(), margin = model.radius();
  Tensor result = Tensor::empty({image.size(0), scale * h, scale * w}, {.dtype = image.dtype()});
  for (std::int64_t y = 0; y < h; y += tile) {
    for (std::int64_t x = 0; x < w; x += tile) {
      const std::int64_t top = std::max<std::int64_t>(0, y - margin), left = std::max<std::int64_t>(0, x - margin);
      const std::int64_t bottom = std::min(h, y + tile + margin), right = std::min(w, x + tile + margin);
      const Tensor part = enlarge(data::crop(image, top, left, bottom - top, right - left));
      copy_window(part, scale * (y - top), scale * (x - left), result, scale * y, scale * x,
                  scale * (std::min(h, y + tile) - y), scale * (std::min(w, x + tile) - x));
    }
  }
  return result;
}

/// One tile's luma (1, h, w).
Tensor run(const Model& model, const Tensor& luma, adjoint::Device device, bool self_ensemble) {
  const Tensor low = luma.unsqueeze(0).to(device);
  Tensor high;
  if (self_ensemble) {
    for (const bool transposed : {false, true}) {
      for (const adjoint::Dims& axes : {adjoint::Dims{}, {2}, {3}, {2, 3}}) {
        Tensor one = adjoint::flip(model(adjoint::flip(transposed ? low.transpose(2, 3) : low, axes)), axes);
        if (transposed) one = one.transpose(2, 3);
        high = high.defined() ? high + one : one;
      }
    }
    high = high / 8.0;
  } else {
    high = model(low);
  }
  return high.to(adjoint::kCPU).squeeze(0).contiguous();
}

/// One tile of a picture: BT.601 colour differences are linear in the channels, so "bicubic colour with the model's
/// luma" is bicubic interpolation of every channel, plus the difference of the lumas in each.
Tensor enlarge(const Model& model, const Tensor& image, adjoint::Device device, const UpscaleOptions& options) {
  const Tensor low = data::to_float(image);
  const Tensor plain = bicubic(low, model.scale());
  const auto as_given = [&](const Tensor& made) {
    return image.dtype() == adjoint::kUInt8 ? data::to_uint8(made) : adjoint::clamp(made, 0.0, 1.0);
  };
  if (options.bicubic) return as_given(plain);
  const std::int64_t colors = low.size(0) >= 3 ? 3 : 1;
  const Tensor luma = run(model, data::to_channels(low, data::Channels::kGrey), device, options.self_ensemble);
  const Tensor plain_luma = data::to_channels(plain, data::Channels::kGrey);
  const Tensor color = plain.narrow(0, 0, colors) + (luma - plain_luma);
  Tensor result = plain.clone();
  result.narrow(0, 0, colors).copy_(color);
  return as_given(result);
}

}  // namespace

Tensor upscale_luma(const Model& model, const Tensor& luma, adjoint::Device device, const UpscaleOptions& options) {
  const adjoint::PauseTape pause;
  return by_tiles(model, luma, options.tile,
                  [&](const Tensor& part) { return run(model, part, device, options.self_ensemble); });
}

Tensor upscale(const Model& model, const Tensor& image, adjoint::Device device, const UpscaleOptions& options) {
  const adjoint::PauseTape pause;
  return by_tiles(model, image, options.tile,
                  [&](const Tensor& part) { return enlarge(model, part, device, options); });
}

std::optional<Quality> expected_quality(const Model& model, const Tensor& image, adjoint::Device device,
                                        bool self_ensemble) {
  constexpr std::int64_t kLeast = 16, kMost = 1024;  // pixels: of the shrunk picture, of the picture
  const adjoint::PauseTape pause;
  const std::int64_t scale = model.scale();
  const std::int64_t h = std::min(image.size(1), kMost) / scale * scale,
                     w = std::min(image.size(2), kMost) / scale * scale;
  if (std::min(h, w) < kLeast * scale) return std::nullopt;
  const Tensor middle = data::crop(image, (image.size(1) - h) / 2, (image.size(2) - w) / 2, h, w);
  return measure(model, luma_pair(data::to_uint8(data::to_channels(middle, data::Channels::kRGB)), scale), device,
                 self_ensemble);
}

}  // namespace super_resolution
