// The interface between the PNG and JPEG codecs and image.cpp. Internal.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/image.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::data {

/// Interleaved samples in the file's layout, rows from the top; 16-bit samples in the machine's byte order.
struct Raster {
  std::int64_t height = 0, width = 0, channels = 0;
  int bit_depth = 8;                  // 8 or 16
  int orientation = 1;                // EXIF: 1 is upright
  std::vector<std::uint8_t> samples;  // height * width * channels * bit_depth / 8 bytes

  std::int64_t row_bytes() const { return width * channels * (bit_depth / 8); }
  /// The dtype in which it is read.
  DType dtype(const ReadImageOptions& options) const {
    return options.keep_depth && bit_depth == 16 ? kFloat32 : options.dtype;
  }
};

/// Builds a picture (C, H, W) from rows in the file's layout, or from a part of them: separates their channels and
/// turns them upright, each row while it is in the nearest cache.
class PictureRows {
 public:
  /// `layout` gives extents, channels, depth and orientation; its samples are not read. Keeps only the stored pixels in
  /// `part`. Each has `pixel_samples` samples, the first of which are the channels.
  PictureRows(const Raster& layout, const Window& part, std::int64_t pixel_samples, DType dtype);
  /// Returns true if put() uses row `y`.
  bool wants(std::int64_t y) const { return y >= part_.top && y - part_.top < part_.height; }
  /// Stored row `y`, of layout.width pixels.
  void put(std::int64_t y, const std::uint8_t* row) {
    if (wants(y)) put_(*this, y - part_.top, row + skipped_bytes_);
  }
  /// Call it once.
  Tensor picture() && { return std::move(picture_); }

 private:
  template <class Src, class Dst, class Convert>
  static void put_row(PictureRows& rows, std::int64_t y, const std::uint8_t* row);

  Window part_;
  std::int64_t channels_, pixel_samples_, skipped_bytes_;
  std::int64_t plane_ = 0, start_ = 0, row_step_ = 0, column_step_ = 0;  // elements of the picture
  Tensor picture_;
  void* data_ = nullptr;  // of the picture
  void (*put_)(PictureRows& rows, std::int64_t y, const std::uint8_t* row) = nullptr;
};

/// A file in memory, and how to read it.
struct Encoded {
  const char* op;  // appears in errors; a scope would also rename errors of options.window
  std::span<const std::uint8_t> bytes;
  const std::string& name;  // in errors
  const ReadImageOptions& options;
};

/// Throws Error if the picture with the extents of `raster` has more than options.max_pixels pixels.
void check_pixels(const Encoded& file, const Raster& raster);
/// The bytes of the picture that a raster of these extents, channels and depth becomes.
double picture_bytes(const Encoded& file, const Raster& raster);
/// Throws Error if reading such a picture needs more than options.max_bytes: `decoding` until it exists, or the memory
/// for converting its channels after that.
void check_memory(const Encoded& file, const Raster& raster, double decoding);
/// Throws OutOfMemoryError, even if there is no memory for its message.
[[noreturn]] void fail_memory(const char* op, const std::string& name);

/// The part of the stored picture that corresponds to options.window, which refers to the upright picture. Throws Error
/// if it is not inside.
Window stored_window(const Encoded& file, const Raster& layout);

Raster decode_png(const Encoded& file);
/// The upright picture, without a whole raster in memory.
Tensor decode_jpeg(const Encoded& file);
std::vector<std::uint8_t> encode_png(const Raster& raster, const std::string& name, int compression);
std::vector<std::uint8_t> encode_jpeg(const Raster& raster, const std::string& name, int quality);

/// The upright picture (C, H, W), uint8 or float32, from a part of the raster.
Tensor to_tensor(const Raster& raster, const Window& part, DType dtype);
/// A contiguous uint8 or float32 picture on the CPU as samples of 8 or 16 bits; values are clamped to [0, 1] and
/// rounded, NaN becomes 0.
Raster to_raster(const Tensor& image, int bit_depth);

/// [0, 1] to 0 ... kTop, rounded; NaN gives 0.
template <class T, int kTop>
T quantise(float value) {
  return value > 0.0F ? static_cast<T>(std::min(value, 1.0F) * static_cast<float>(kTop) + 0.5F) : T{0};
}

/// The orientation, 1 to 8, in a TIFF block as EXIF embeds it; 1 if it is missing or the block is damaged.
ADJOINT_API int exif_orientation(std::span<const std::uint8_t> tiff);

}  // namespace adjoint::data
