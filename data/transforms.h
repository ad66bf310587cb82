// Random changes of pictures, to augment training data. Everything works on (..., H, W) tensors of any dtype on the CPU
// and returns a contiguous copy; all randomness comes from the given generator, so a seed repeats it.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/image.h>

#include <cstdint>
#include <functional>

namespace adjoint::data {

/// Rows [top, top + height) and columns [left, left + width). Throws Error if they are not all inside.
ADJOINT_API Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                        std::int64_t width);
/// Left to right.
ADJOINT_API Tensor flip_horizontal(const Tensor& image);
/// Top to bottom.
ADJOINT_API Tensor flip_vertical(const Tensor& image);
/// Rows become columns: (..., W, H).
ADJOINT_API Tensor transpose_image(const Tensor& image);

/// A crop of this size, every position equally likely. Throws Error for a smaller image.
ADJOINT_API Tensor random_crop(const Tensor& image, std::int64_t height, std::int64_t width, Generator& generator);
/// The part of a picture of this height and width to read; see ImageFolderOptions.
using ImageWindow = std::function<Window(std::int64_t height, std::int64_t width, Generator& generator)>;
/// The part that random_crop() cuts out of the whole picture. The call throws Error for a smaller picture.
ADJOINT_API ImageWindow random_window(std::int64_t height, std::int64_t width);
/// Flips left to right with this probability.
ADJOINT_API Tensor random_flip_horizontal(const Tensor& image, Generator& generator, double probability = 0.5);
/// Flips top to bottom with this probability.
ADJOINT_API Tensor random_flip_vertical(const Tensor& image, Generator& generator, double probability = 0.5);
/// One of the eight flips and quarter turns of a square, all equally likely; H and W are swapped in half of them.
ADJOINT_API Tensor random_dihedral(const Tensor& image, Generator& generator);

}  // namespace adjoint::data
