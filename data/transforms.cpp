// Crops, flips and quarter turns: copies in one strided walk.
#include <adjoint/data/transforms.h>

#include <adjoint/core/base/check.h>

#include <cstring>

namespace adjoint::data {
namespace {

void check_image(const char* op, const Tensor& image) {
  ADJOINT_CHECK(image.defined(), "{}: the image must be defined; got an undefined Tensor", op);
  ADJOINT_CHECK(image.dim() >= 2, "{}: the image must be (..., H, W); got {}", op, image.shape());
  ADJOINT_CHECK(image.device().is_cpu(), "{}: the image must be on the CPU; got {}", op, image.device());
}

/// The position of element (0, 0) of the result in a source plane, and the steps down and to the right, in elements.
struct Walk {
  std::int64_t height, width, start, down, right;
};

template <class T>
void copy_planes(const Tensor& image, Tensor& result, const Walk& walk) {
  const auto* in = static_cast<const T*>(image.raw_data());
  auto* out = static_cast<T*>(result.raw_mutable_data());
  const std::int64_t plane = image.size(-2) * image.size(-1);
  const std::int64_t planes = result.numel() / (walk.height * walk.width);
  for (std::int64_t p = 0; p < planes; ++p) {
    for (std::int64_t y = 0; y < walk.height; ++y) {
      const T* row = in + p * plane + walk.start + y * walk.down;
      if (walk.right == 1) {
        std::memcpy(out, row, static_cast<std::size_t>(walk.width) * sizeof(T));
        out += walk.width;
      } else {
        for (std::int64_t x = 0; x < walk.width; ++x) *out++ = row[x * walk.right];
      }
    }
  }
}

Tensor walked(const Tensor& image, const Walk& walk) {
  Shape shape = image.shape();
  shape[shape.size() - 2] = walk.height;
  shape[shape.size() - 1] = walk.width;
  Tensor result = Tensor::empty(shape, {.dtype = image.dtype()});
  if (result.numel() == 0) return result;
  const Tensor source = image.detach().contiguous();
  switch (element_size(image.dtype())) {
    case 1: copy_planes<std::uint8_t>(source, result, walk); break;
    case 2: copy_planes<std::uint16_t>(source, result, walk); break;
    case 4: copy_planes<std::uint32_t>(source, result, walk); break;
    default: copy_planes<std::uint64_t>(source, result, walk); break;
  }
  return result;
}

Tensor flipped(const Tensor& image, bool horizontally, bool vertically, bool transposed) {
  const std::int64_t h = image.size(-2), w = image.size(-1);
  if (image.numel() == 0) return walked(image, transposed ? Walk{w, h, 0, 0, 0} : Walk{h, w, 0, 0, 0});
  const std::int64_t start = (vertically ? (h - 1) * w : 0) + (horizontally ? w - 1 : 0);
  const std::int64_t down = vertically ? -w : w, right = horizontally ? -1 : 1;
  return walked(image, transposed ? Walk{w, h, start, right, down} : Walk{h, w, start, down, right});
}

Window drawn_window(std::int64_t of_height, std::int64_t of_width, std::int64_t height, std::int64_t width,
                    Generator& generator) {
  const auto top = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(of_height - height + 1)));
  const auto left = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(of_width - width + 1)));
  return {top, left, height, width};
}

bool happens(double probability, const char* op, Generator& generator) {
  ADJOINT_CHECK(probability >= 0.0 && probability <= 1.0, "{}: probability must be from 0 to 1; got {}", op,
                probability);
  return generator.uniform() < probability;
}

}  // namespace

Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  check_image("crop", image);
  const std::int64_t h = image.size(-2), w = image.size(-1);
  ADJOINT_CHECK(top >= 0 && left >= 0 && height >= 0 && width >= 0 && height <= h - top && width <= w - left,
                "crop: the window must be inside the image; got top {}, left {}, height {}, width {} of {}", top, left,
                height, width, image.shape());
  const std::int64_t start = image.numel() == 0 ? 0 : top * w + left;  // otherwise it fits in 63 bits
  return walked(image, {height, width, start, w, 1});
}

Tensor flip_horizontal(const Tensor& image) {
  check_image("flip_horizontal", image);
  return flipped(image, true, false, false);
}

Tensor flip_vertical(const Tensor& image) {
  check_image("flip_vertical", image);
  return flipped(image, false, true, false);
}

Tensor transpose_image(const Tensor& image) {
  check_image("transpose_image", image);
  return flipped(image, false, false, true);
}

Tensor random_crop(const Tensor& image, std::int64_t height, std::int64_t width, Generator& generator) {
  check_image("random_crop", image);
  ADJOINT_CHECK(height >= 1 && width >= 1 && height <= image.size(-2) && width <= image.size(-1),
                "random_crop: the crop must be at least 1 x 1 and fit into the image; got {} x {} of {}", height, width,
                image.shape());
  const Window part = drawn_window(image.size(-2), image.size(-1), height, width, generator);
  return crop(image, part.top, part.left, height, width);
}

ImageWindow random_window(std::int64_t height, std::int64_t width) {
  return [=](std::int64_t of_height, std::int64_t of_width, Generator& generator) {
    ADJOINT_CHECK(height >= 1 && width >= 1 && height <= of_height && width <= of_width,
                  "random_window: the window must be at least 1 x 1 and fit into the picture; got {} x {} of {} x {}",
                  height, width, of_height, of_width);
    return drawn_window(of_height, of_width, height, width, generator);
  };
}

Tensor random_flip_horizontal(const Tensor& image, Generator& generator, double probability) {
  check_image("random_flip_horizontal", image);
  return flipped(image, happens(probability, "random_flip_horizontal", generator), false, false);
}

Tensor random_flip_vertical(const Tensor& image, Generator& generator, double probability) {
  check_image("random_flip_vertical", image);
  return flipped(image, false, happens(probability, "random_flip_vertical", generator), false);
}

Tensor random_dihedral(const Tensor& image, Generator& generator) {
  check_image("random_dihedral", image);
  const std::uint64_t pick = generator.below(8);
  return flipped(image, (pick & 1U) != 0, (pick & 2U) != 0, (pick & 4U) != 0);
}

}  // namespace adjoint::data
