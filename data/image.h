// Pictures as tensors, and PNG and JPEG files of them.
//
// A picture is a tensor (C, H, W). The number of channels determines their meaning: 1 grey, 2 grey and alpha, 3
// red-green-blue, 4 RGB and alpha (not premultiplied). uint8 counts from 0 to 255; floating point from 0 to 1. Sample
// values are taken directly from the file: colour profiles and gamma chunks are not applied.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adjoint::data {

/// The channels of the result, independent of the file's. Grey is BT.601 luma; alpha is dropped or made opaque.
enum class Channels : std::uint8_t { kAsStored = 0, kGrey = 1, kGreyAlpha = 2, kRGB = 3, kRGBA = 4 };

/// Rows [top, top + height) and columns [left, left + width) of a picture.
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

struct ReadImageOptions {
  Channels channels = Channels::kAsStored;
  /// kUInt8 (16-bit samples are rounded to 8 bits) or kFloat32 (16-bit samples keep all their bits).
  DType dtype = kUInt8;
  /// A picture with more pixels is an error, which is found before memory is allocated.
  std::int64_t max_pixels = std::int64_t{1} << 28;
  /// Reading a picture that would hold more bytes at once is an error too: the file, a PNG's samples as stored, a
  /// progressive JPEG's coefficients, and the result.
  std::int64_t max_bytes = std::int64_t{1} << 30;
  /// Reads as much as possible of a damaged file whose beginning describes the picture; the rest is grey or black.
  bool damaged = false;
  /// Files with 16 bits per sample give float32 for every dtype: nothing is lost, and the result's dtype shows it.
  bool keep_depth = false;
  /// Returns the part to read; called once with the height and width of the upright picture. If empty, all is read. The
  /// whole file is still decoded and checked, but the rest of it is never kept, which is faster than a crop()
  /// afterwards. A part that is empty or not completely inside is an error.
  std::function<Window(std::int64_t height, std::int64_t width)> window = {};
};

enum class ImageFormat : std::uint8_t { kPNG, kJPEG };

/// The format of a file with these first bytes; empty for other formats.
ADJOINT_API std::optional<ImageFormat> image_format(std::span<const std::uint8_t> bytes);

/// Reads PNG (1 to 16 bits; grey, palette, RGB, transparency; interlaced) or JPEG (grey, YCbCr, RGB, CMYK, YCCK;
/// progressive), recognised by content. Applies the EXIF orientation, so row 0 is the top. Throws Error, naming the
/// path, for another format, for a picture that exceeds options.max_pixels or options.max_bytes, and for a file that is
/// damaged or truncated: one in which samples are lost, or found again after a gap. Skips text and profiles in PNG
/// files, stray bytes between a JPEG's segments, and constant padding after its data; other oddities that change no
/// sample are accepted.
ADJOINT_API Tensor read_image(const std::filesystem::path& path, const ReadImageOptions& options = {});
/// Like read_image, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_image(std::span<const std::uint8_t> bytes, const ReadImageOptions& options = {},
                                const std::string& name = "image");

struct PngOptions {
  /// Bits per sample: 8 or 16.
  int bit_depth = 8;
  /// zlib's, from 0 (fast) to 9 (small).
  int compression = 6;
};
struct JpegOptions {
  /// 1 to 100. At 90 and above colour keeps its full resolution.
  int quality = 92;
};

/// Floating-point values are clamped to [0, 1] and rounded. Throws Error if `image` is not a picture (see the top of
/// this file).
ADJOINT_API std::vector<std::uint8_t> encode_png(const Tensor& image, const PngOptions& options = {});
/// Like encode_png, but with 1 or 3 channels, because JPEG has no alpha.
ADJOINT_API std::vector<std::uint8_t> encode_jpeg(const Tensor& image, const JpegOptions& options = {});

/// Encodes and replaces the file atomically. Throws Error, naming the path.
ADJOINT_API void write_png(const std::filesystem::path& path, const Tensor& image, const PngOptions& options = {});
ADJOINT_API void write_jpeg(const std::filesystem::path& path, const Tensor& image, const JpegOptions& options = {});
/// Writes PNG, or JPEG with its default options, by the path's extension: .png, .jpg or .jpeg in upper or lower case.
ADJOINT_API void write_image(const std::filesystem::path& path, const Tensor& image, const PngOptions& png = {});

/// uint8 / 255 as float32; floating point is converted to float32 without scaling.
ADJOINT_API Tensor to_float(const Tensor& image);
/// Floating point clamped to [0, 1] (NaN becomes 0), times 255, rounded; uint8 unchanged.
ADJOINT_API Tensor to_uint8(const Tensor& image);
/// The picture with these channels; see Channels. CPU, uint8 or float32.
ADJOINT_API Tensor to_channels(const Tensor& image, Channels channels);

}  // namespace adjoint::data
