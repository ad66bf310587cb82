// PNG files by libpng.
//
// libpng reports errors by longjmp, which must not skip a destructor: objects with a destructor are created before
// setjmp, and the functions called after it hold only plain values.
//
// A chunk may claim, and unpack to, far more data than a picture needs. The chunks are therefore surveyed first: libpng
// sees only those that affect samples or orientation, each no longer than the file.
#include <adjoint/core/base/check.h>
#include <adjoint/data/codec.h>

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

namespace adjoint::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

struct PngErrors {
  char message[160] = "unknown error";
  bool out_of_memory = false;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

// If an allocation fails, libpng continues without it if it can.
png_voidp allocate(png_structp png, png_alloc_size_t bytes) {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    static_cast<PngErrors*>(png_get_mem_ptr(png))->out_of_memory = true;
    return nullptr;
  }
}

void release(png_structp, png_voidp data) { ::operator delete(data); }

struct Reader {
  PngErrors errors;
  png_structp png = nullptr;
  png_infop info = nullptr;

  Reader() {
    png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning, &errors, allocate, release);
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
    png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning, &errors, allocate, release);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

/// Returns false if libpng gave up; its message is then in the reader's or writer's errors.
template <class F>
[[gnu::noinline]] bool guarded(png_structp png, F step) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  step();
  return true;
}

/// The pieces of a file that libpng gets to see, and the number of bytes of compressed samples in them.
struct Chunks {
  std::vector<Bytes> pieces;
  std::size_t data_bytes = 0;
};

Chunks survey(const Encoded& file) {
  constexpr std::size_t kSignature = 8, kFrame = 12;  // length, type and checksum around a chunk's data
  Chunks chunks{{file.bytes.first(kSignature)}};
  Bytes rest = file.bytes.subspan(kSignature);
  while (!rest.empty()) {
    const bool framed = rest.size() >= kFrame;
    const std::size_t length =
        framed ? std::size_t{rest[0]} << 24 | std::size_t{rest[1]} << 16 | std::size_t{rest[2]} << 8 | rest[3] : 0;
    const std::string_view type(reinterpret_cast<const char*>(rest.data()) + 4, framed ? 4 : 0);
    const bool whole = framed && length <= rest.size() - kFrame;
    if (!whole && file.options.damaged && type != "IDAT") break;
    ADJOINT_CHECK(framed, "{}: '{}' is a damaged PNG file: the file ends too early", file.op, file.name);
    ADJOINT_CHECK(whole || file.options.damaged,
                  "{}: '{}' is a damaged PNG file: the file ends too early: {} bytes are left of {}", file.op,
                  file.name, rest.size() - kFrame, length);
    const Bytes chunk = rest.first(whole ? length + kFrame : rest.size());
    rest = rest.subspan(chunk.size());
    // A lowercase first letter marks chunks that a reader may skip.
    if ((static_cast<unsigned char>(type[0]) & 0x20) != 0 && type != "tRNS" && type != "eXIf") continue;
    if (type == "IDAT") chunks.data_bytes += chunk.size() - kFrame;
    if (Bytes& last = chunks.pieces.back(); last.data() + last.size() == chunk.data()) {
      last = {last.data(), last.size() + chunk.size()};
    } else {
      chunks.pieces.push_back(chunk);
    }
    if (type == "IEND") break;
  }
  return chunks;
}

struct PngSource {
  const Bytes* next;
  const Bytes* end;
  std::size_t used = 0;  // bytes of *next
};

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  while (count > 0) {
    if (source->next == source->end) png_error(png, "the file ends too early");
    const std::size_t part = std::min(count, source->next->size() - source->used);
    std::memcpy(out, source->next->data() + source->used, part);
    out += part;
    count -= part;
    source->used += part;
    if (source->used == source->next->size()) {
      ++source->next;
      source->used = 0;
    }
  }
}

// Makes libpng produce 8 or 16 bits of grey or RGB, with alpha if there is transparency of any kind.
Raster plain_raster(png_structp png, png_infop info) {
  const unsigned type = png_get_color_type(png, info);
  const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  Raster raster;
  raster.width = png_get_image_width(png, info);
  raster.height = png_get_image_height(png, info);
  raster.channels = ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (alpha ? 1 : 0);
  raster.bit_depth = png_get_bit_depth(png, info) == 16 ? 16 : 8;
  return raster;
}

// deflate cannot shrink below 1/1032, so a short file that claims a large picture is damaged, and no memory is spent on
// it.
bool plausible(std::size_t data_bytes, png_structp png, png_infop info) {
  const double packed_row = static_cast<double>(png_get_rowbytes(png, info));
  return packed_row * png_get_image_height(png, info) <= 1032.0 * static_cast<double>(data_bytes);
}

int orientation_of(png_structp png, png_infop info) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png, info, &size, &exif) == 0) return 1;
  return exif_orientation({exif, size});
}

}  // namespace

Raster decode_png(const Encoded& file) {
  const Chunks chunks = survey(file);
  PngSource source{chunks.pieces.data(), chunks.pieces.data() + chunks.pieces.size()};
  Reader reader;
  if (reader.info == nullptr) fail_memory(file.op, file.name);
  png_structp png = reader.png;
  png_infop info = reader.info;
  const bool damaged = file.options.damaged;
  const auto check = [&](bool ok) {
    if (reader.errors.out_of_memory) fail_memory(file.op, file.name);
    ADJOINT_CHECK(ok, "{}: '{}' is a damaged PNG file: {}", file.op, file.name, reader.errors.message);
  };

  check(guarded(png, [&] {
    png_set_read_fn(png, &source, read_bytes);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);              // max_pixels is the limit here
    png_set_chunk_malloc_max(png, 0);                              // the survey limits chunks
    png_set_crc_action(png, PNG_CRC_DEFAULT, PNG_CRC_ERROR_QUIT);  // so that transparency is not lost silently
    if (damaged) {
      png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#if defined(PNG_IGNORE_ADLER32)  // some builds of libpng lack it; a wrong sum is then an error
      png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
      png_set_compression_buffer_size(png, 1);  // a buffer that is not full at the file's end is lost
    }
    png_read_info(png, info);
  }));
  Raster raster = plain_raster(png, info);
  check_pixels(file, raster);
  ADJOINT_CHECK(damaged || plausible(chunks.data_bytes, png, info),
                "{}: '{}' is a damaged PNG file: {} bytes cannot hold its {} x {} pixels", file.op, file.name,
                file.bytes.size(), raster.width, raster.height);
  constexpr double kRows = 4;  // libpng's own row buffers, and its interlaced rows
  const double samples = static_cast<double>(raster.height) * static_cast<double>(raster.row_bytes());
  check_memory(file, raster,
               samples + std::max(kRows * static_cast<double>(raster.row_bytes()), picture_bytes(file, raster)));

  int passes = 1;
  check(guarded(png, [&] {
    png_set_expand(png);
    if (raster.bit_depth == 16) png_set_swap(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
  }));
  ADJOINT_ASSERT(static_cast<std::int64_t>(png_get_rowbytes(png, info)) == raster.row_bytes(), "libpng's rows");
  raster.samples.resize(static_cast<std::size_t>(raster.height * raster.row_bytes()));
  const bool ok = guarded(png, [&] {
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t y = 0; y < raster.height; ++y) {
        png_read_row(png, raster.samples.data() + y * raster.row_bytes(), nullptr);
      }
    }
    png_read_end(png, info);
  });
  check(ok || damaged);
  raster.orientation = orientation_of(png, info);
  return raster;
}

std::vector<std::uint8_t> encode_png(const Raster& raster, const std::string& name, int compression) {
  Writer writer;
  if (writer.info == nullptr) fail_memory("write_png", name);
  png_structp png = writer.png;
  png_infop info = writer.info;
  constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  std::vector<std::uint8_t> bytes;
  // An exception must not cross libpng either: running out of memory here becomes libpng's error.
  const auto append = [](png_structp p, png_bytep data, std::size_t count) {
    auto* out = static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(p));
    bool grown = true;
    try {
      out->insert(out->end(), data, data + count);
    } catch (...) {
      grown = false;
    }
    if (!grown) {
      static_cast<PngErrors*>(png_get_mem_ptr(p))->out_of_memory = true;
      png_error(p, "out of memory");
    }
  };
  const bool ok = guarded(png, [&] {
    png_set_write_fn(png, &bytes, append, [](png_structp) {});
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
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
  if (writer.errors.out_of_memory) fail_memory("write_png", name);
  ADJOINT_CHECK(ok, "write_png: cannot encode '{}': {}", name, writer.errors.message);
  return bytes;
}

}  // namespace adjoint::data
