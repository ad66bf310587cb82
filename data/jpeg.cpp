// JPEG files by libjpeg(-turbo).
//
// libjpeg reports errors by longjmp, which must not skip a destructor: everything with one is made before setjmp, and
// the functions called after it hold plain values alone.
#include <adjoint/core/check.h>
#include <adjoint/data/codec.h>

// jpeglib.h uses FILE without declaring it.
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>

namespace adjoint::data {
namespace {

// A progressive file may hold any number of scans, each a pass over the whole picture; real ones hold about ten.
constexpr int kMaxScans = 200;

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void give_up(j_common_ptr codec) {
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  codec->err->format_message(codec, errors->message);
  std::longjmp(errors->jump, 1);
}

// libjpeg warns where data is missing and invents grey for it; here that is an error. Other warnings are harmless.
void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  const int code = codec->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_BOGUS_PROGRESSION) {
    give_up(codec);
  }
}

void on_progress(j_common_ptr codec) {
  if (codec->is_decompressor == 0) return;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxScans) {
    auto* errors = reinterpret_cast<Errors*>(codec->err);
    std::snprintf(errors->message, sizeof(errors->message), "more than %d scans", kMaxScans);
    std::longjmp(errors->jump, 1);
  }
}

jpeg_error_mgr* install(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = give_up;
  errors.base.emit_message = on_message;
  errors.base.output_message = [](j_common_ptr) {};
  std::strcpy(errors.message, "unknown error");
  return &errors.base;
}

/// False where libjpeg gave up; its message is then in `errors`.
template <class F>
[[gnu::noinline]] bool guarded(Errors& errors, F step) {
  if (setjmp(errors.jump) != 0) return false;
  step();
  return true;
}

struct Decompressor {
  Errors errors;
  jpeg_decompress_struct codec{};
  jpeg_progress_mgr progress{};

  Decompressor() {
    codec.err = install(errors);
    progress.progress_monitor = on_progress;
  }
  ~Decompressor() { jpeg_destroy_decompress(&codec); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

struct Compressor {
  Errors errors;
  jpeg_compress_struct codec{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Compressor() { codec.err = install(errors); }
  ~Compressor() {
    jpeg_destroy_compress(&codec);
    std::free(bytes);
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
};

int orientation_of(const jpeg_decompress_struct& codec) {
  constexpr std::uint8_t kTag[] = {'E', 'x', 'i', 'f', 0, 0};
  for (jpeg_saved_marker_ptr marker = codec.marker_list; marker != nullptr; marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1 && marker->data_length > sizeof(kTag) &&
        std::memcmp(marker->data, kTag, sizeof(kTag)) == 0) {
      return exif_orientation({marker->data + sizeof(kTag), marker->data_length - sizeof(kTag)});
    }
  }
  return 1;
}

// Printers' inks to light, without a colour profile: each ink covers its complement, black all three. Adobe's files,
// which is nearly all there are, store the inks inverted.
void inks_to_rgb(const std::vector<std::uint8_t>& inks, bool inverted, std::vector<std::uint8_t>& rgb) {
  const int flip = inverted ? 0 : 255;
  for (std::size_t pixel = 0; pixel < inks.size() / 4; ++pixel) {
    const int black = flip ^ inks[4 * pixel + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[3 * pixel + c] = static_cast<std::uint8_t>(((flip ^ inks[4 * pixel + c]) * black + 127) / 255);
    }
  }
}

J_COLOR_SPACE output_space(J_COLOR_SPACE stored) {
  switch (stored) {
    case JCS_GRAYSCALE: return JCS_GRAYSCALE;
    case JCS_CMYK:
    case JCS_YCCK: return JCS_CMYK;
    default: return JCS_RGB;
  }
}

}  // namespace

Raster decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, std::int64_t max_pixels) {
  Decompressor reader;
  jpeg_decompress_struct& codec = reader.codec;
  const auto check = [&](bool ok) {
    ADJOINT_CHECK(ok, "read_image: '{}' is a damaged JPEG file: {}", name, reader.errors.message);
  };

  check(guarded(reader.errors, [&] {
    jpeg_create_decompress(&codec);
    codec.progress = &reader.progress;
    jpeg_mem_src(&codec, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&codec, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = output_space(codec.jpeg_color_space);
  }));
  check_pixels(name, codec.image_width, codec.image_height, max_pixels);
  check(guarded(reader.errors, [&] { jpeg_start_decompress(&codec); }));

  Raster raster;
  raster.width = codec.output_width;
  raster.height = codec.output_height;
  raster.channels = codec.output_components;
  raster.orientation = orientation_of(codec);
  raster.samples.resize(static_cast<std::size_t>(raster.height * raster.row_bytes()));
  check(guarded(reader.errors, [&] {
    while (codec.output_scanline < codec.output_height) {
      JSAMPROW row = raster.samples.data() + static_cast<std::int64_t>(codec.output_scanline) * raster.row_bytes();
      jpeg_read_scanlines(&codec, &row, 1);
    }
    jpeg_finish_decompress(&codec);
  }));
  if (raster.channels == 4) {
    std::vector<std::uint8_t> rgb(raster.samples.size() / 4 * 3);
    inks_to_rgb(raster.samples, codec.saw_Adobe_marker != 0, rgb);
    raster.samples = std::move(rgb);
    raster.channels = 3;
  }
  return raster;
}

std::vector<std::uint8_t> encode_jpeg(const Raster& raster, const std::string& name, int quality) {
  Compressor writer;
  jpeg_compress_struct& codec = writer.codec;
  const bool ok = guarded(writer.errors, [&] {
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &writer.bytes, &writer.size);
    codec.image_width = static_cast<JDIMENSION>(raster.width);
    codec.image_height = static_cast<JDIMENSION>(raster.height);
    codec.input_components = static_cast<int>(raster.channels);
    codec.in_color_space = raster.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, quality, TRUE);
    codec.optimize_coding = TRUE;
    if (quality >= 90 && raster.channels == 3) codec.comp_info[0].h_samp_factor = codec.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&codec, TRUE);
    while (codec.next_scanline < codec.image_height) {
      // libjpeg's rows are not const, but it only reads them.
      auto* row = const_cast<JSAMPROW>(raster.samples.data() +
                                       static_cast<std::int64_t>(codec.next_scanline) * raster.row_bytes());
      jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
  });
  ADJOINT_CHECK(ok, "write_jpeg: cannot encode '{}': {}", name, writer.errors.message);
  return {writer.bytes, writer.bytes + writer.size};
}

}  // namespace adjoint::data
