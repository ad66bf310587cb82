// Pictures as tensors, and PNG and JPEG files of them.
//
// A picture is a tensor (C, H, W) whose channels say what it is: 1 grey, 2 grey and alpha, 3 red-green-blue, 4 RGB and
// alpha (not premultiplied). uint8 counts from 0 to 255; floating point from 0 to 1. Sample values are taken as they
// stand in the file: colour profiles and gamma chunks are not applied.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adjoint::data {

/// How many channels a picture should have, whatever the file holds. Grey is BT.601 luma; alpha is dropped or made
/// opaque.
enum class Channels : std::uint8_t { kAsStored = 0, kGrey = 1, kGreyAlpha = 2, kRGB = 3, kRGBA = 4 };

/// Rows [top, top + height) and columns [left, left + width) of a picture.
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

struct ReadImageOptions {
  Channels channels = Channels::kAsStored;
  /// kUInt8 (16-bit samples are rounded to 8 bits) or kFloat32 (16-bit samples keep all their bits).
  DType dtype = kUInt8;
  /// A picture of more pixels is an error, found before memory is asked for.
  std::int64_t max_pixels = std::int64_t{1} << 28;
  /// So is one whose reading would hold more bytes at once: the file, a PNG's samples as stored, a progressive JPEG's
  /// coefficients, the result.
  std::int64_t max_bytes = std::int64_t{1} << 30;
  /// Takes what can be read of a damaged file whose beginning says what picture it is; the rest is grey or black.
  bool damaged = false;
  /// Files of 16 bits a sample give float32 whatever dtype says: nothing is lost, and the result's dtype tells of them.
  bool keep_depth = false;
  /// Asked once for the part of the upright picture, of this height and width, that is wanted; without it, all is. The
  /// whole file is decoded and checked all the same, but the rest of it is never kept: quicker than a crop() after it.
  /// A part that is empty or not all inside is an error.
  std::function<Window(std::int64_t height, std::int64_t width)> window = {};
};

enum class ImageFormat : std::uint8_t { kPNG, kJPEG };

/// What the first bytes of a file say; none where they are neither's.
ADJOINT_API std::optional<ImageFormat> image_format(std::span<const std::uint8_t> bytes);

/// Reads PNG (1 to 16 bits; grey, palette, RGB, transparency; interlaced) or JPEG (grey, YCbCr, RGB, CMYK, YCCK;
/// progressive), told apart by content. The EXIF orientation is applied, so row 0 is the top. Throws Error, naming the
/// path, for what is neither, exceeds options.max_pixels or options.max_bytes, or is damaged or cut short: where
/// samples are lost, or found again behind a gap. Text and profiles in PNG files are passed over unread. So are stray
/// bytes between a JPEG's segments and constant padding behind its data; other oddities that change no sample are
/// accepted.
ADJOINT_API Tensor read_image(const std::filesystem::path& path, const ReadImageOptions& options = {});
/// As read_image, from memory; `name` stands for the path in errors.
ADJOINT_API Tensor decode_image(std::span<const std::uint8_t> bytes, const ReadImageOptions& options = {},
                                const std::string& name = "image");

struct PngOptions {
  /// Bits a sample: 8 or 16.
  int bit_depth = 8;
  /// zlib's, from 0 (fast) to 9 (small).
  int compression = 6;
};
struct JpegOptions {
  /// 1 to 100. At 90 and above colour keeps its full resolution.
  int quality = 92;
};

/// Floating-point values are clamped to [0, 1] and rounded. Throws Error for what is no picture (see the top of this
/// file).
ADJOINT_API std::vector<std::uint8_t> encode_png(const Tensor& image, const PngOptions& options = {});
/// As encode_png; 1 or 3 channels, for JPEG has no alpha.
ADJOINT_API std::vector<std::uint8_t> encode_jpeg(const Tensor& image, const JpegOptions& options = {});

/// Encodes and replaces the file atomically. Throws Error, naming the path.
ADJOINT_API void write_png(const std::filesystem::path& path, const Tensor& image, const PngOptions& options = {});
ADJOINT_API void write_jpeg(const std::filesystem::path& path, const Tensor& image, const JpegOptions& options = {});
/// PNG, or JPEG with its default options, by the path's extension: .png, .jpg or .jpeg in either case.
ADJOINT_API void write_image(const std::filesystem::path& path, const Tensor& image, const PngOptions& png = {});

/// uint8 / 255 as float32; floating point is converted to float32 as it is.
ADJOINT_API Tensor to_float(const Tensor& image);
/// Floating point clamped to [0, 1] (NaN becomes 0), times 255, rounded; uint8 as it is.
ADJOINT_API Tensor to_uint8(const Tensor& image);
/// The picture with these channels; see Channels. CPU, uint8 or float32.
ADJOINT_API Tensor to_channels(const Tensor& image, Channels channels);

}  // namespace adjoint::data
