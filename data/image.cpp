// Reads and writes pictures, with bounds and checks, and converts between channels and dtypes.
#include <adjoint/data/image.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/data/codec.h>

#include <algorithm>
#include <cctype>
#include <new>

namespace adjoint::data {
namespace {

// Copied when it is thrown, which allocates no memory.
const OutOfMemoryError kNoMemory("read_image, write_image: out of memory");

void check_picture(const char* op, const Tensor& image) {
  ADJOINT_CHECK(image.defined(), "{}: the picture must be defined; got an undefined Tensor", op);
  ADJOINT_CHECK(image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= 4,
                "{}: a picture must be (C, H, W) with 1 to 4 channels; got {}", op, image.shape());
  ADJOINT_CHECK(image.dtype() == kUInt8 || is_floating_point(image.dtype()),
                "{}: a picture must be uint8 or floating point; got {}", op, image.dtype());
}

void check_encodable(const char* op, const Tensor& image, std::int64_t max_extent) {
  check_picture(op, image);
  ADJOINT_CHECK(image.numel() > 0 && std::max(image.size(1), image.size(2)) <= max_extent,
                "{}: height and width must be from 1 to {}; got {}", op, max_extent, image.shape());
}

/// Converts any picture to a contiguous float32 or uint8 picture on the CPU.
Tensor plain(const Tensor& image) {
  const Tensor host = image.detach().to(kCPU);
  return (host.dtype() == kUInt8 ? host : host.to(kFloat32)).contiguous();
}

/// Returns the result of `call`, and turns std::bad_alloc into OutOfMemoryError.
template <class F>
auto within_memory(const char* op, const std::string& name, F call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    fail_memory(op, name);
  }
}

void check_png(const Tensor& image, const PngOptions& options) {
  check_encodable("write_png", image, 0x7fffffff);
  ADJOINT_CHECK(options.bit_depth == 8 || options.bit_depth == 16, "write_png: bit_depth must be 8 or 16; got {}",
                options.bit_depth);
  ADJOINT_CHECK(options.compression >= 0 && options.compression <= 9,
                "write_png: compression must be from 0 to 9; got {}", options.compression);
}

void check_jpeg(const Tensor& image, const JpegOptions& options) {
  constexpr std::int64_t kMaxExtent = 65500;  // libjpeg's own limit
  check_encodable("write_jpeg", image, kMaxExtent);
  ADJOINT_CHECK(image.size(0) == 1 || image.size(0) == 3,
                "write_jpeg: JPEG holds 1 or 3 channels; got {}; drop alpha with to_channels, or write a PNG",
                image.shape());
  ADJOINT_CHECK(options.quality >= 1 && options.quality <= 100, "write_jpeg: quality must be from 1 to 100; got {}",
                options.quality);
}

std::vector<std::uint8_t> png_bytes(const Tensor& image, const PngOptions& options, const std::string& name) {
  return within_memory("write_png", name, [&] {
    return encode_png(to_raster(plain(image), options.bit_depth), name, options.compression);
  });
}

std::vector<std::uint8_t> jpeg_bytes(const Tensor& image, const JpegOptions& options, const std::string& name) {
  return within_memory("write_jpeg", name,
                       [&] { return encode_jpeg(to_raster(plain(image), 8), name, options.quality); });
}

/// Opens the file before doing work that would be wasted on a refused path.
template <class Encode>
void replace_file(const char* op, const std::filesystem::path& path, Encode encode) {
  AtomicFile file(op, path);
  const std::vector<std::uint8_t> bytes = encode(path.string());
  file.write(bytes.data(), bytes.size());
  file.commit();
}

// BT.601: the luma of R'G'B'.
template <class T>
T luma(T r, T g, T b) {
  const float value = 0.299F * static_cast<float>(r) + 0.587F * static_cast<float>(g) + 0.114F * static_cast<float>(b);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value + 0.5F);
  } else {
    return value;
  }
}

template <class T>
Tensor converted(const Tensor& image, std::int64_t channels) {
  const std::int64_t plane = image.size(1) * image.size(2);
  const std::int64_t have = image.size(0);
  const bool has_color = have >= 3, has_alpha = have % 2 == 0;
  const bool wants_color = channels >= 3, wants_alpha = channels % 2 == 0;
  Tensor result = Tensor::empty({channels, image.size(1), image.size(2)}, {.dtype = image.dtype()});
  const T* in = image.data<T>();
  T* out = result.mutable_data<T>();
  for (std::int64_t c = 0; c < (wants_color ? 3 : 1); ++c) {
    if (has_color && !wants_color) {
      for (std::int64_t i = 0; i < plane; ++i) out[i] = luma(in[i], in[plane + i], in[2 * plane + i]);
    } else {
      std::copy_n(in + (has_color ? c * plane : 0), plane, out + c * plane);
    }
  }
  if (wants_alpha) {
    T* alpha = out + (channels - 1) * plane;
    if (has_alpha) {
      std::copy_n(in + (have - 1) * plane, plane, alpha);
    } else {
      std::fill_n(alpha, plane, std::is_integral_v<T> ? T(255) : T(1));
    }
  }
  return result;
}

}  // namespace

void check_pixels(const Encoded& file, const Raster& raster) {
  ADJOINT_CHECK(raster.width * raster.height <= file.options.max_pixels,
                "{}: '{}' must have at most {} pixels; got {} x {} = {}", file.op, file.name, file.options.max_pixels,
                raster.width, raster.height, raster.width * raster.height);
}

double picture_bytes(const Encoded& file, const Raster& raster) {
  return static_cast<double>(raster.width) * static_cast<double>(raster.height) *
         static_cast<double>(raster.channels * element_size(raster.dtype(file.options)));
}

void check_memory(const Encoded& file, const Raster& raster, double decoding) {
  const auto& [op, bytes, name, options] = file;
  const double picture = picture_bytes(file, raster);
  const double wanted = static_cast<double>(options.channels), have = static_cast<double>(raster.channels);
  const double converted = options.channels == Channels::kAsStored || wanted == have ? 0 : picture / have * wanted;
  const double peak = static_cast<double>(bytes.size()) + std::max(decoding, picture + converted);
  ADJOINT_CHECK(peak <= static_cast<double>(options.max_bytes),
                "{}: '{}' must be read in at most {} bytes of memory; got {} x {} pixels of {} channels, which take "
                "{:.0f}; raise max_bytes",
                op, name, options.max_bytes, raster.width, raster.height, raster.channels, peak);
}

void fail_memory(const char* op, const std::string& name) {
  try {
    throw_out_of_memory(fmt::format("{}: '{}' needs more memory than there is", op, name));
  } catch (const std::bad_alloc&) {
    throw kNoMemory;
  }
}

std::optional<ImageFormat> image_format(std::span<const std::uint8_t> bytes) {
  constexpr std::uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr std::uint8_t kJpeg[] = {0xff, 0xd8, 0xff};
  const auto starts_with = [&](std::span<const std::uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with(kPng)) return ImageFormat::kPNG;
  if (starts_with(kJpeg)) return ImageFormat::kJPEG;
  return std::nullopt;
}

namespace {

Tensor decoded(const Encoded& file) {
  const auto& [op, bytes, name, options] = file;
  ADJOINT_CHECK(options.dtype == kUInt8 || options.dtype == kFloat32, "{}: dtype must be uint8 or float32; got {}", op,
                options.dtype);
  check_enumerator(op, "Channels", options.channels, Channels::kRGBA);
  const auto format = image_format(bytes);
  ADJOINT_CHECK(format, "{}: '{}' must be a PNG or JPEG file; got {} bytes of something else", op, name, bytes.size());
  return within_memory(op, name, [&] {
    const auto decode = [&] {
      if (*format == ImageFormat::kJPEG) return decode_jpeg(file);
      const Raster raster = decode_png(file);
      return to_tensor(raster, stored_window(file, raster), raster.dtype(file.options));
    };
    return to_channels(decode(), file.options.channels);
  });
}

}  // namespace

Tensor decode_image(std::span<const std::uint8_t> bytes, const ReadImageOptions& options, const std::string& name) {
  return decoded({"decode_image", bytes, name, options});
}

Tensor read_image(const std::filesystem::path& path, const ReadImageOptions& options) {
  const auto max_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(options.max_bytes, 0));
  const std::vector<std::uint8_t> bytes = read_file("read_image", path, max_bytes);
  const std::string name = path.string();
  return decoded({"read_image", bytes, name, options});
}

std::vector<std::uint8_t> encode_png(const Tensor& image, const PngOptions& options) {
  const OpScope scope("encode_png");
  check_png(image, options);
  return png_bytes(image, options, "image");
}
std::vector<std::uint8_t> encode_jpeg(const Tensor& image, const JpegOptions& options) {
  const OpScope scope("encode_jpeg");
  check_jpeg(image, options);
  return jpeg_bytes(image, options, "image");
}

void write_png(const std::filesystem::path& path, const Tensor& image, const PngOptions& options) {
  check_png(image, options);
  replace_file("write_png", path, [&](const std::string& name) { return png_bytes(image, options, name); });
}

void write_jpeg(const std::filesystem::path& path, const Tensor& image, const JpegOptions& options) {
  check_jpeg(image, options);
  replace_file("write_jpeg", path, [&](const std::string& name) { return jpeg_bytes(image, options, name); });
}

void write_image(const std::filesystem::path& path, const Tensor& image, const PngOptions& png) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const OpScope scope("write_image");
  if (extension == ".png") return write_png(path, image, png);
  if (extension == ".jpg" || extension == ".jpeg") return write_jpeg(path, image);
  fail("write_image: the path must end in .png, .jpg or .jpeg; got '{}'", path.string());
}

Tensor to_float(const Tensor& image) {
  check_picture("to_float", image);
  const Tensor in = plain(image);
  if (in.dtype() == kFloat32) return in;
  Tensor out = Tensor::empty(in.shape());
  std::transform(in.data<std::uint8_t>(), in.data<std::uint8_t>() + in.numel(), out.mutable_data<float>(),
                 [](std::uint8_t v) { return static_cast<float>(v) / 255.0F; });
  return out;
}

Tensor to_uint8(const Tensor& image) {
  check_picture("to_uint8", image);
  const Tensor in = plain(image);
  if (in.dtype() == kUInt8) return in;
  Tensor out = Tensor::empty(in.shape(), {.dtype = kUInt8});
  std::transform(in.data<float>(), in.data<float>() + in.numel(), out.mutable_data<std::uint8_t>(),
                 quantise<std::uint8_t, 255>);
  return out;
}

Tensor to_channels(const Tensor& image, Channels channels) {
  check_enumerator("to_channels", "Channels", channels, Channels::kRGBA);
  check_picture("to_channels", image);
  const Tensor in = plain(image);
  const auto wanted = static_cast<std::int64_t>(channels);
  if (channels == Channels::kAsStored || wanted == in.size(0)) return in;
  return in.dtype() == kUInt8 ? converted<std::uint8_t>(in, wanted) : converted<float>(in, wanted);
}

}  // namespace adjoint::data
