#include "predict.h"

#include "common/memory_format.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>
#include <adjoint/ops/pad/pad.h>

#include <fmt/format.h>

#include <algorithm>

namespace segmentation {
namespace {

namespace data = adjoint::data;
using adjoint::Tensor;

/// The place of a tile along one axis: the computed part, and the part of it that is kept.
struct Span {
  std::int64_t from, to;         // of the window
  std::int64_t inner, inner_to;  // of the tile
};

std::vector<Span> spans(std::int64_t extent, std::int64_t tile, std::int64_t margin) {
  std::vector<Span> all;
  for (std::int64_t at = 0; at < extent; at += tile) {
    const std::int64_t end = std::min(extent, at + tile);
    all.push_back({std::max<std::int64_t>(0, at - margin), std::min(extent, end + margin), at, end});
  }
  return all;
}

/// (to - from): 1 on the tile, falling in a line to the window's ends.
Tensor ramp(const Span& span) {
  Tensor weights = Tensor::ones({span.to - span.from});
  float* w = weights.mutable_data<float>();
  for (std::int64_t i = span.from; i < span.to; ++i) {
    const std::int64_t outside = std::max({span.inner - i, i + 1 - span.inner_to, std::int64_t{0}});
    const std::int64_t room = i < span.inner ? span.inner - span.from : span.to - span.inner_to;
    if (outside > 0) w[i - span.from] = 1.0F - static_cast<float>(outside) / static_cast<float>(room + 1);
  }
  return weights;
}

}  // namespace

Tensor scores(const UNet& model, const Tensor& picture, adjoint::Device device, std::int64_t tile) {
  if (tile < 1) throw adjoint::Error(fmt::format("segmentation: --tile must be at least 1; got {}", tile));
  if (model.training()) throw adjoint::Error("segmentation: scores: the model must be in eval mode");
  const std::int64_t align = model.alignment();
  const std::int64_t step = (tile + align - 1) / align * align;
  const std::int64_t height = picture.size(1), width = picture.size(2);
  Tensor whole = data::to_float(picture);
  if (height < align || width < align) {
    const std::int64_t right = std::max<std::int64_t>(0, align - width),
                       below = std::max<std::int64_t>(0, align - height);
    whole = adjoint::pad(whole.unsqueeze(0), {0, right, 0, below}, adjoint::PadMode::kReplicate).squeeze(0);
  }
  const std::int64_t h = whole.size(1), w = whole.size(2);
  const adjoint::MemoryFormat format = examples::format_of(model);
  const bool blend = model.options().norm == "group";
  Tensor sums = Tensor::zeros({model.options().classes, h, w}), weights = Tensor::zeros({1, h, w});
  for (const Span& y : spans(h, step, model.margin())) {
    for (const Span& x : spans(w, step, model.margin())) {
      const Tensor window = data::crop(whole, y.from, x.from, y.to - y.from, x.to - x.from);
      const Tensor input = examples::in_format(window.unsqueeze(0).to(device), format);
      const Tensor result = model(input).to(adjoint::kCPU).to(adjoint::kFloat32).squeeze(0);
      if (!blend) {
        Tensor target = sums.narrow(1, y.inner, y.inner_to - y.inner).narrow(2, x.inner, x.inner_to - x.inner);
        target.copy_(
            result.narrow(1, y.inner - y.from, y.inner_to - y.inner).narrow(2, x.inner - x.from, x.inner_to - x.inner));
        continue;
      }
      const Tensor weight = ramp(y).unsqueeze(1) * ramp(x).unsqueeze(0);
      sums.narrow(1, y.from, y.to - y.from).narrow(2, x.from, x.to - x.from).add_(result * weight);
      weights.narrow(1, y.from, y.to - y.from).narrow(2, x.from, x.to - x.from).add_(weight.unsqueeze(0));
    }
  }
  if (blend) sums = sums / weights;
  return sums.narrow(1, 0, height).narrow(2, 0, width).contiguous();
}

}  // namespace segmentation
