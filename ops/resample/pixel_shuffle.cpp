// Channels to pixels and back: reshapes around a permutation, which provide the gradients.
#include <adjoint/ops/resample/resample.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

namespace adjoint {
namespace {

/// (..., C, H, W) as (N, C, H, W).
Tensor as_batch(const Tensor& input) {
  const Shape batch(input.shape().begin(), input.shape().end() - 3);
  return input.reshape({batch.numel(), input.size(-3), input.size(-2), input.size(-1)});
}

/// `like`'s leading axes, then these three.
Shape with_image(const Tensor& like, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Shape shape(like.shape().begin(), like.shape().end() - 3);
  for (const std::int64_t extent : {channels, height, width}) shape.push_back(extent);
  return shape;
}

void check(const char* op, const char* factor_name, const Tensor& input, std::int64_t factor) {
  check_defined(op, "input", input);
  ADJOINT_CHECK(input.dim() >= 3, "{}: input must be (..., C, H, W); got {}", op, input.shape());
  // Beyond 2^31 its square would exceed 63 bits.
  ADJOINT_CHECK(factor >= 1 && factor < std::int64_t{1} << 31, "{}: {} must be from 1 to 2^31 - 1; got {}", op,
                factor_name, factor);
}

// extent * factor. Extents of a tensor without elements can be anything, so the product may exceed 63 bits.
std::int64_t grown(const char* op, const Tensor& input, std::int64_t extent, std::int64_t factor) {
  std::int64_t product = 0;
  ADJOINT_CHECK(!__builtin_mul_overflow(extent, factor, &product),
                "{}: the result's extents must fit in 63 bits; got input {}, a factor of {}", op, input.shape(),
                factor);
  return product;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor) {
  const OpScope scope("pixel_shuffle");
  const std::int64_t r = upscale_factor;
  check("pixel_shuffle", "upscale_factor", input, r);
  ADJOINT_CHECK(input.size(-3) % (r * r) == 0,
                "pixel_shuffle: channels must be a multiple of upscale_factor^2 = {}; got input {}", r * r,
                input.shape());
  const std::int64_t height = grown("pixel_shuffle", input, input.size(-2), r);
  const std::int64_t width = grown("pixel_shuffle", input, input.size(-1), r);
  const Tensor x = as_batch(input);
  const std::int64_t n = x.size(0), c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
  return x.reshape({n, c, r, r, h, w}).permute({0, 1, 4, 2, 5, 3}).reshape(with_image(input, c, height, width));
}

Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor) {
  const OpScope scope("pixel_unshuffle");
  const std::int64_t r = downscale_factor;
  check("pixel_unshuffle", "downscale_factor", input, r);
  ADJOINT_CHECK(input.size(-2) % r == 0 && input.size(-1) % r == 0,
                "pixel_unshuffle: height and width must be multiples of downscale_factor = {}; got input {}", r,
                input.shape());
  const std::int64_t channels = grown("pixel_unshuffle", input, input.size(-3), r * r);
  const Tensor x = as_batch(input);
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2) / r, w = x.size(3) / r;
  return x.reshape({n, c, h, r, w, r}).permute({0, 1, 3, 5, 2, 4}).reshape(with_image(input, channels, h, w));
}

}  // namespace adjoint
