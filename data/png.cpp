// PNG files by libpng.
//
// libpng reports errors by longjmp, which must not skip a destructor: everything with one is made before setjmp, and
// the functions called after it hold plain values alone.
#include <adjoint/core/check.h>
#include <adjoint/data/codec.h>

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace adjoint::data {
namespace {

struct PngErrors {
  char message[160] = "unknown error";
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct Source {
  const std::uint8_t* next;
  const std::uint8_t* end;
};

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > static_cast<std::size_t>(source->end - source->next)) png_error(png, "the file ends too early");
  std::memcpy(out, source->next, count);
  source->next += count;
}

struct Reader {
  PngErrors errors;
  png_structp png = nullptr;
  png_infop info = nullptr;

  Reader() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

struct Writer {
  PngErrors errors;
  png_structp png = nullptr;
  png_infop info = nullptr;

  Writer() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

/// False where libpng gave up; its message is then in the reader's or writer's errors.
template <class F>
[[gnu::noinline]] bool guarded(png_structp png, F step) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  step();
  return true;
}

// Asks libpng for 8 or 16 bits of grey or RGB, with alpha where the file has transparency of any kind.
void request_plain_samples(png_structp png, png_infop info) {
  png_set_expand(png);
  if (png_get_bit_depth(png, info) == 16) png_set_swap(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

// deflate cannot shrink below 1/1032, so a short file that claims a large picture is damaged: no memory is spent on it.
bool plausible(std::size_t file_bytes, png_structp png, png_infop info) {
  const double packed_row = static_cast<double>(png_get_rowbytes(png, info));
  return packed_row * png_get_image_height(png, info) <= 1032.0 * static_cast<double>(file_bytes);
}

int orientation_of(png_structp png, png_infop info) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png, info, &size, &exif) == 0) return 1;
  return exif_orientation({exif, size});
}

}  // namespace

Raster decode_png(std::span<const std::uint8_t> bytes, const std::string& name, std::int64_t max_pixels) {
  Reader reader;
  ADJOINT_CHECK(reader.info != nullptr, "read_image: libpng cannot start on '{}'", name);
  png_structp png = reader.png;
  png_infop info = reader.info;
  Source source{bytes.data(), bytes.data() + bytes.size()};
  png_set_read_fn(png, &source, read_bytes);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // max_pixels is the limit
  const auto check = [&](bool ok) {
    ADJOINT_CHECK(ok, "read_image: '{}' is a damaged PNG file: {}", name, reader.errors.message);
  };

  check(guarded(png, [&] { png_read_info(png, info); }));
  Raster raster;
  raster.width = png_get_image_width(png, info);
  raster.height = png_get_image_height(png, info);
  check_pixels(name, raster.width, raster.height, max_pixels);
  ADJOINT_CHECK(plausible(bytes.size(), png, info),
                "read_image: '{}' is a damaged PNG file: {} bytes cannot hold its {} x {} pixels", name, bytes.size(),
                raster.width, raster.height);

  check(guarded(png, [&] { request_plain_samples(png, info); }));
  raster.channels = png_get_channels(png, info);
  raster.bit_depth = png_get_bit_depth(png, info);
  ADJOINT_ASSERT(static_cast<std::int64_t>(png_get_rowbytes(png, info)) == raster.row_bytes(), "libpng's rows");
  raster.samples.resize(static_cast<std::size_t>(raster.height * raster.row_bytes()));
  std::vector<png_bytep> rows(static_cast<std::size_t>(raster.height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = raster.samples.data() + y * raster.row_bytes();
  check(guarded(png, [&] {
    png_read_image(png, rows.data());
    png_read_end(png, info);
  }));
  raster.orientation = orientation_of(png, info);
  return raster;
}

std::vector<std::uint8_t> encode_png(const Raster& raster, const std::string& name, int compression) {
  Writer writer;
  ADJOINT_CHECK(writer.info != nullptr, "write_png: libpng cannot start on '{}'", name);
  png_structp png = writer.png;
  png_infop info = writer.info;
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  std::vector<std::uint8_t> bytes;
  // An exception must not cross libpng either: running out of memory here becomes libpng's error.
  const auto append = [](png_structp p, png_bytep data, std::size_t count) {
    auto* out = static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(p));
    bool grown = true;
    try {
      out->insert(out->end(), data, data + count);
    } catch (const std::bad_alloc&) {
      grown = false;
    }
    if (!grown) png_error(p, "out of memory");
  };
  png_set_write_fn(png, &bytes, append, [](png_structp) {});
  const bool ok = guarded(png, [&] {
    png_set_IHDR(png, info, static_cast<png_uint_32>(raster.width), static_cast<png_uint_32>(raster.height),
                 raster.bit_depth, kColorTypes[raster.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, compression);
    png_write_info(png, info);
    if (raster.bit_depth == 16) png_set_swap(png);
    for (std::int64_t y = 0; y < raster.height; ++y) {
      png_write_row(png, raster.samples.data() + y * raster.row_bytes());
    }
    png_write_end(png, info);
  });
  ADJOINT_CHECK(ok, "write_png: cannot encode '{}': {}", name, writer.errors.message);
  return bytes;
}

}  // namespace adjoint::data
