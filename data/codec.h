// What the PNG and JPEG codecs hand to image.cpp. Internal.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/data/image.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adjoint::data {

/// Interleaved samples as a file holds them, rows from the top; 16-bit samples in the machine's byte order.
struct Raster {
  std::int64_t height = 0, width = 0, channels = 0;
  int bit_depth = 8;                  // 8 or 16
  int orientation = 1;                // EXIF: 1 is upright
  std::vector<std::uint8_t> samples;  // height * width * channels * bit_depth / 8 bytes

  std::int64_t row_bytes() const { return width * channels * (bit_depth / 8); }
};

/// Throws Error, naming `name`, for more than `max_pixels` pixels.
void check_pixels(const std::string& name, std::int64_t width, std::int64_t height, std::int64_t max_pixels);

Raster decode_png(std::span<const std::uint8_t> bytes, const std::string& name, std::int64_t max_pixels);
Raster decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, std::int64_t max_pixels);
std::vector<std::uint8_t> encode_png(const Raster& raster, const std::string& name, int compression);
std::vector<std::uint8_t> encode_jpeg(const Raster& raster, const std::string& name, int quality);

/// The orientation, 1 to 8, in a TIFF block as EXIF embeds it; 1 where there is none or the block is damaged.
ADJOINT_API int exif_orientation(std::span<const std::uint8_t> tiff);

}  // namespace adjoint::data
