#include <adjoint/data/image_grid.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/data/image.h>

#include <algorithm>

namespace adjoint::data {
namespace {

// Scales elements of `x` from the range to [0, 1], as torchvision does: a range below 1e-5 counts as 1e-5.
Tensor scaled(const Tensor& x, const GridOptions& options) {
  const double low = options.value_range ? options.value_range->first : x.min().item<double>();
  const double high = options.value_range ? options.value_range->second : x.max().item<double>();
  return x.clamp(low, high).sub(low).div(std::max(high - low, 1e-5));
}

// (N, C, H, W), C other than 1.
Tensor batch_of(const Tensor& pictures) {
  ADJOINT_CHECK(pictures.dim() >= 2 && pictures.dim() <= 4,
                "make_grid: pictures must be (N, C, H, W), (C, H, W) or (H, W); got {}", pictures.shape());
  Tensor batch = pictures.detach();
  while (batch.dim() < 4) batch = batch.unsqueeze(0);
  ADJOINT_CHECK(batch.numel() > 0, "make_grid: there must be a picture with pixels; got {}", pictures.shape());
  return batch.size(1) == 1 ? batch.expand({-1, 3, -1, -1}) : batch;
}

}  // namespace

Tensor make_grid(const Tensor& pictures, const GridOptions& options) {
  const OpScope scope("make_grid");
  check_defined("make_grid", "pictures", pictures);
  ADJOINT_CHECK(options.nrow >= 1 && options.padding >= 0,
                "make_grid: nrow must be at least 1 and padding not negative; got {} and {}", options.nrow,
                options.padding);
  const PauseTape pause;
  Tensor batch = batch_of(pictures);
  const std::int64_t count = batch.size(0), height = batch.size(2), width = batch.size(3), around = options.padding;
  if (options.normalize) {
    check_floating("make_grid", batch.dtype());
    if (options.scale_each) {
      batch = batch.clone();
      for (std::int64_t i = 0; i < count; ++i) Tensor(batch[i]).copy_(scaled(batch[i], options));
    } else {
      batch = scaled(batch, options);
    }
  }
  if (count == 1) return batch[0].contiguous();
  const std::int64_t columns = std::min(options.nrow, count), rows = (count + columns - 1) / columns;
  Tensor grid = Tensor::full({batch.size(1), rows * (height + around) + around, columns * (width + around) + around},
                             options.pad_value, batch.options());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / columns * (height + around) + around, left = i % columns * (width + around) + around;
    Tensor place = grid.narrow(1, top, height).narrow(2, left, width);
    place.copy_(batch[i]);
  }
  return grid;
}

Tensor make_grid(const std::vector<Tensor>& pictures, const GridOptions& options) {
  const OpScope scope("make_grid");
  ADJOINT_CHECK(!pictures.empty(), "make_grid: there must be at least one picture; got none");
  const PauseTape pause;
  for (const Tensor& picture : pictures) {
    check_defined("make_grid", "a picture", picture);
    ADJOINT_CHECK(picture.dim() == 3 && picture.shape() == pictures[0].shape() &&
                      picture.dtype() == pictures[0].dtype(),
                  "make_grid: pictures must be (C, H, W), of one shape and dtype; got {} {} and {} {}",
                  pictures[0].dtype(), pictures[0].shape(), picture.dtype(), picture.shape());
  }
  Shape shape = pictures[0].shape();
  shape.insert(0, static_cast<std::int64_t>(pictures.size()));
  Tensor batch = Tensor::empty(shape, pictures[0].options());
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    Tensor place = batch[static_cast<std::int64_t>(i)];
    place.copy_(pictures[i].detach());
  }
  return make_grid(batch, options);
}

void save_image(const std::filesystem::path& path, const Tensor& pictures, const GridOptions& options) {
  write_image(path, make_grid(pictures, options).to(kCPU));
}

}  // namespace adjoint::data
