// JPEG files by libjpeg(-turbo).
//
// libjpeg reports errors by longjmp, which must not skip a destructor: objects with a destructor are created before
// setjmp, and the functions called after it hold only plain values.
#include <adjoint/core/base/check.h>
#include <adjoint/data/codec.h>

// jpeglib.h uses FILE without declaring it.
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <climits>
#include <csetjmp>
#include <cstring>
#include <optional>
#include <utility>

namespace adjoint::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

// The limit of scans in a progressive file. A file may hold any number of them, each a pass over the whole picture;
// real files hold about ten. At this limit a file of 500 kB that is nothing but passes keeps a processor busy for
// seconds.
constexpr int kMaxScans = 64;

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool out_of_memory = false;
};

[[noreturn]] void give_up(j_common_ptr codec) {
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  codec->err->format_message(codec, errors->message);
  errors->out_of_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(errors->jump, 1);
}

void install(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = give_up;
  errors.base.emit_message = [](j_common_ptr, int) {};
  errors.base.output_message = [](j_common_ptr) {};
  std::strcpy(errors.message, "unknown error");
}

/// Returns false if libjpeg gave up; its message is then in `errors`.
template <class F>
[[gnu::noinline]] bool guarded(Errors& errors, F step) {
  if (setjmp(errors.jump) != 0) return false;
  step();
  return true;
}

// ---- Reading.

/// The parts of a file that hold coded samples: from the end of each start-of-scan segment to the next marker that is
/// neither a restart nor a stuffed byte. Markers are found in libjpeg's way; scans beyond the limit are left out. `cut`
/// is set to true if the file ends within another segment.
std::vector<Bytes> scans_of(Bytes file, bool& cut) {
  constexpr std::uint8_t kStartOfImage = 0xd8, kEndOfImage = 0xd9, kStartOfScan = 0xda;
  std::vector<Bytes> scans;
  std::size_t at = 0, scan = 0;  // scan: the start of coded samples, 0 outside them
  while (true) {
    const auto* const next = at < file.size() ? std::memchr(file.data() + at, 0xff, file.size() - at) : nullptr;
    at = next != nullptr ? static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - file.data()) : file.size();
    const std::size_t found = at;
    while (at < file.size() && file[at] == 0xff) ++at;
    const std::uint8_t marker = at < file.size() ? file[at++] : kEndOfImage;
    const bool restart = marker >= 0xd0 && marker <= 0xd7;
    if (marker == 0 || restart || marker == kStartOfImage || marker == 0x01) continue;
    if (scan != 0) scans.push_back(file.subspan(scan, found - scan));
    scan = 0;
    if (marker == kEndOfImage || scans.size() > kMaxScans) return scans;
    const std::size_t length = file.size() - at < 2 ? 3 : std::size_t{file[at]} << 8 | file[at + 1];
    cut = at + length > file.size();
    at = std::min(file.size(), at + std::max<std::size_t>(length, 2));
    if (marker == kStartOfScan) scan = at;
  }
}

/// libjpeg's source. It gets little at a time: with much in its buffer, its Huffman decoder treats invalid codes as
/// zeros.
struct JpegSource {
  jpeg_source_mgr base;  // first: libjpeg hands back a pointer to it
  const std::uint8_t* next;
  const std::uint8_t* end;
  bool ended = false;  // libjpeg asked for more
};

boolean fill(j_decompress_ptr codec) {
  constexpr std::ptrdiff_t kWindow = 256;  // fewer than 512, which the fast decoder needs for each block
  static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
  auto* source = reinterpret_cast<JpegSource*>(codec->src);
  if (source->next == source->end) {
    source->ended = true;
    WARNMS(codec, JWRN_JPEG_EOF);
    source->base.next_input_byte = kEnd;
    source->base.bytes_in_buffer = sizeof(kEnd);
    return TRUE;
  }
  const std::ptrdiff_t count = std::min(kWindow, source->end - source->next);
  source->base.next_input_byte = source->next;
  source->base.bytes_in_buffer = static_cast<std::size_t>(count);
  source->next += count;
  return TRUE;
}

void skip(j_decompress_ptr codec, long count) {
  if (count <= 0) return;
  auto* source = reinterpret_cast<JpegSource*>(codec->src);
  const auto buffered = static_cast<long>(std::min<std::size_t>(source->base.bytes_in_buffer, LONG_MAX));
  const long now = std::min(count, buffered);
  source->base.next_input_byte += now;
  source->base.bytes_in_buffer -= static_cast<std::size_t>(now);
  source->next += std::min<std::ptrdiff_t>(count - now, source->end - source->next);
}

struct Decompressor {
  Errors errors;
  JpegSource source;
  jpeg_decompress_struct codec{};
  jpeg_progress_mgr progress{};
  const std::uint8_t* begin;
  bool cut = false, finishing = false;  // cut: within a segment; finishing: every sample has been read
  std::vector<Bytes> scans;

  explicit Decompressor(const Encoded& file);
  ~Decompressor() { jpeg_destroy_decompress(&codec); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// The file up to the end of the last scan that libjpeg has read; empty if there is none.
  Bytes whole_scans() const;
  /// Returns true if the `count` bytes before libjpeg's position are coded samples that were not read.
  bool unread_samples(std::ptrdiff_t count) const;
};

Bytes Decompressor::whole_scans() const {
  const std::uint8_t* here = source.next - std::min<std::ptrdiff_t>(source.base.bytes_in_buffer, source.next - begin);
  Bytes whole;
  for (const Bytes scan : scans) {
    if (scan.data() + scan.size() <= here) whole = {begin, scan.data() + scan.size()};
  }
  return whole;
}

bool Decompressor::unread_samples(std::ptrdiff_t count) const {
  const std::uint8_t* here = codec.src->next_input_byte;
  const auto scan = std::find_if(scans.begin(), scans.end(),
                                 [&](Bytes part) { return part.data() < here && here <= part.data() + part.size(); });
  if (scan == scans.end()) return false;
  // Cameras write padding: bytes that are all equal hold no samples. A single byte may, unless it is zero.
  const std::uint8_t* first = here - std::min(count, here - scan->data());
  const std::uint8_t padding = count == 1 ? 0 : *first;
  return !std::all_of(first, here, [&](std::uint8_t byte) { return byte == padding; });
}

// Scans may come in any order, and repeatedly; the bits that a scan refines must be known down to that point.
bool skips_bits(const jpeg_decompress_struct& codec) {
  const int component = codec.err->msg_parm.i[0], coefficient = codec.err->msg_parm.i[1];
  if (codec.Ss > 0 && coefficient == 0) return false;  // AC before DC
  const int known = codec.coef_bits[component][coefficient];
  return codec.Ah != 0 && (known < 0 || codec.Ah < known);
}

// libjpeg warns if samples are lost, and invents others. Its other warnings report oddities that change no sample. If
// only the end marker is missing, the Huffman decoder does not run out of bits (JWRN_HIT_MARKER); the arithmetic
// decoder silently reads zeros in their place.
bool loses_samples(const Decompressor& reader) {
  switch (reader.codec.err->msg_code) {
    case JWRN_JPEG_EOF: return !reader.finishing && (reader.cut || reader.codec.arith_code != 0);
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC: return true;
    case JWRN_BOGUS_PROGRESSION: return skips_bits(reader.codec);
    case JWRN_EXTRANEOUS_DATA: return reader.unread_samples(reader.codec.err->msg_parm.i[0]);
    default: return false;
  }
}

void on_message(j_common_ptr codec, int level) {
  const auto& reader = *static_cast<const Decompressor*>(codec->client_data);
  if (level >= 0 || !loses_samples(reader)) return;
  if (reader.source.ended && codec->err->msg_code == JWRN_HIT_MARKER)
    codec->err->msg_code = JWRN_JPEG_EOF;  // the cause
  give_up(codec);
}

void on_progress(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxScans) {
    auto* errors = reinterpret_cast<Errors*>(codec->err);
    std::snprintf(errors->message, sizeof(errors->message), "more than %d scans", kMaxScans);
    std::longjmp(errors->jump, 1);
  }
}

Decompressor::Decompressor(const Encoded& file) : begin(file.bytes.data()), scans(scans_of(file.bytes, cut)) {
  install(errors);
  if (!file.options.damaged) errors.base.emit_message = on_message;
  codec.err = &errors.base;
  codec.client_data = this;
  progress.progress_monitor = on_progress;
  source.base.next_input_byte = source.next = file.bytes.data();
  source.base.bytes_in_buffer = 0;
  source.end = file.bytes.data() + file.bytes.size();
  source.base.init_source = source.base.term_source = [](j_decompress_ptr) {};
  source.base.fill_input_buffer = fill;
  source.base.skip_input_data = skip;
  source.base.resync_to_restart = jpeg_resync_to_restart;
}

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

// Converts printers' inks to RGB in place, without a colour profile: each ink covers its complement, and black covers
// all three. Nearly all files are Adobe's, which store the inks inverted.
void inks_to_rgb(std::span<std::uint8_t> row, bool inverted) {
  const int flip = inverted ? 0 : 255;
  for (std::size_t pixel = 0; pixel < row.size(); pixel += 4) {
    const int black = flip ^ row[pixel + 3];
    for (std::size_t c = pixel; c < pixel + 3; ++c) {
      row[c] = static_cast<std::uint8_t>(((flip ^ row[c]) * black + 127) / 255);
    }
  }
}

#if defined(JCS_EXTENSIONS)  // libjpeg-turbo's; pixels of four bytes are separated faster than those of three
constexpr J_COLOR_SPACE kRgb = JCS_EXT_RGBX;
#else
constexpr J_COLOR_SPACE kRgb = JCS_RGB;
#endif

J_COLOR_SPACE output_space(J_COLOR_SPACE stored) {
  switch (stored) {
    case JCS_GRAYSCALE: return JCS_GRAYSCALE;
    case JCS_CMYK:
    case JCS_YCCK: return JCS_CMYK;
    default: return kRgb;
  }
}

std::size_t blocks_of(const jpeg_decompress_struct& codec) {
  std::size_t blocks = 0;
  for (int i = 0; i < codec.num_components; ++i) {
    blocks += std::size_t{codec.comp_info[i].width_in_blocks} * codec.comp_info[i].height_in_blocks;
  }
  return blocks;
}

// A block of 8 x 8 samples needs at least two bits, or one in a progressive file, so a short file that claims a large
// picture costs no memory. Arithmetic codes have no such useful bound; this one is for flat pictures.
bool plausible(const Decompressor& reader) {
  constexpr std::size_t kBlocksPerBit = 1024;
  std::size_t bits = 0;
  for (const Bytes scan : reader.scans) bits += 8 * scan.size();
  const std::size_t blocks = blocks_of(reader.codec);
  if (reader.codec.arith_code != 0) return blocks <= kBlocksPerBit * bits;
  return (reader.codec.progressive_mode != 0 ? blocks : 2 * blocks) <= bits;
}

// Returns true if every component was in a scan, including its mean level: libjpeg silently makes a missing one grey. A
// file without an end marker needs every bit of every frequency, because the missing part is unknown.
bool complete(const Decompressor& reader) {
  const jpeg_decompress_struct& codec = reader.codec;
  for (int i = 0; i < codec.num_components; ++i) {
    if (codec.comp_info[i].quant_table == nullptr) return false;
    if (codec.progressive_mode == 0) continue;
    const int* const bits = codec.coef_bits[i];
    const bool whole = std::all_of(bits, bits + DCTSIZE2, [](int left) { return left == 0; });
    if (bits[0] < 0 || (reader.source.ended && !whole)) return false;
  }
  return true;
}

/// The picture; empty if libjpeg stopped between scans and `whole`, if it is given, received the bytes before that.
std::optional<Tensor> decode(const Encoded& file, Bytes* whole) {
  Decompressor reader(file);
  jpeg_decompress_struct& codec = reader.codec;
  const bool damaged = file.options.damaged;
  const auto check = [&](bool ok) {
    if (reader.errors.out_of_memory) fail_memory(file.op, file.name);
    ADJOINT_CHECK(ok, "{}: '{}' is a damaged JPEG file: {}", file.op, file.name, reader.errors.message);
  };

  bool buffered = false;
  check(guarded(reader.errors, [&] {
    jpeg_create_decompress(&codec);
    codec.progress = &reader.progress;
    codec.src = &reader.source.base;
    jpeg_save_markers(&codec, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = output_space(codec.jpeg_color_space);
    buffered = jpeg_has_multiple_scans(&codec) != 0;
  }));
  Raster raster;  // filled row by row
  raster.width = codec.image_width;
  raster.height = codec.image_height;
  raster.channels = codec.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  check_pixels(file, raster);
  ADJOINT_CHECK(damaged || plausible(reader),
                "{}: '{}' is a damaged JPEG file: {} bytes cannot hold its {} x {} pixels", file.op, file.name,
                file.bytes.size(), raster.width, raster.height);
  constexpr double kBlockBytes = 64 * sizeof(JCOEF);
  const double coefficients = buffered ? kBlockBytes * static_cast<double>(blocks_of(codec)) : 0;
  check_memory(file, raster, coefficients + picture_bytes(file, raster));

  const bool started = guarded(reader.errors, [&] { jpeg_start_decompress(&codec); });
  if (!started && whole != nullptr) *whole = reader.whole_scans();
  if (!started && whole != nullptr && !whole->empty()) return std::nullopt;
  check(started);
  ADJOINT_CHECK(damaged || !buffered || complete(reader),
                "{}: '{}' is a damaged JPEG file: it lacks samples of a component", file.op, file.name);
  raster.orientation = orientation_of(codec);
  const std::int64_t pixel_samples = codec.output_components;
  ADJOINT_ASSERT(pixel_samples >= raster.channels, "libjpeg's components");
  PictureRows rows(raster, stored_window(file, raster), pixel_samples, raster.dtype(file.options));
  // libjpeg-turbo stores rows with its vectors' alignment past the caches, and separating their channels then waits for
  // memory. operator new aligns to 16 bytes, so 8 more bytes avoid that alignment.
  constexpr std::size_t kUnaligned = 8;
  std::vector<std::uint8_t> memory(kUnaligned + static_cast<std::size_t>(raster.width * pixel_samples));
  const std::span<std::uint8_t> row = std::span(memory).subspan(kUnaligned);
  const auto put = [&](std::int64_t y) {
    if (codec.out_color_space == JCS_CMYK && rows.wants(y)) inks_to_rgb(row, codec.saw_Adobe_marker != 0);
    rows.put(y, row.data());
  };
  const bool read = guarded(reader.errors, [&] {
    JSAMPROW next = row.data();
    while (codec.output_scanline < codec.output_height) {
      const std::int64_t y = codec.output_scanline;
      if (jpeg_read_scanlines(&codec, &next, 1) == 1) put(y);
    }
    reader.finishing = !buffered;
    jpeg_finish_decompress(&codec);
  });
  check(read || (damaged && !reader.errors.out_of_memory));
  constexpr std::uint8_t kGrey = 128;
  for (std::int64_t y = codec.output_scanline; y < raster.height; ++y) {
    std::fill(row.begin(), row.end(), kGrey);
    put(y);
  }
  return std::move(rows).picture();
}

// ---- Writing.

/// libjpeg's destination: its own loses track of its memory when it runs out.
struct Destination {
  jpeg_destination_mgr base;  // first: libjpeg hands back a pointer to it
  std::vector<std::uint8_t> bytes;
  JOCTET buffer[4096];

  // An exception must not cross libjpeg: running out of memory here becomes libjpeg's error.
  void append(j_compress_ptr codec, std::size_t count) {
    bool grown = true;
    try {
      bytes.insert(bytes.end(), buffer, buffer + count);
    } catch (...) {
      grown = false;
    }
    if (!grown) ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
    base.next_output_byte = buffer;
    base.free_in_buffer = sizeof(buffer);
  }
};

struct Compressor {
  Errors errors;
  jpeg_compress_struct codec{};
  Destination destination;

  Compressor() {
    install(errors);
    codec.err = &errors.base;
    destination.base.init_destination = [](j_compress_ptr c) { of(c).append(c, 0); };
    destination.base.empty_output_buffer = [](j_compress_ptr c) -> boolean {
      of(c).append(c, sizeof(Destination::buffer));
      return TRUE;
    };
    destination.base.term_destination = [](j_compress_ptr c) {
      of(c).append(c, sizeof(Destination::buffer) - c->dest->free_in_buffer);
    };
  }
  ~Compressor() { jpeg_destroy_compress(&codec); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

 private:
  static Destination& of(j_compress_ptr c) { return *reinterpret_cast<Destination*>(c->dest); }
};

}  // namespace

Tensor decode_jpeg(const Encoded& file) {
  Bytes whole;
  if (auto picture = decode(file, file.options.damaged ? &whole : nullptr)) return std::move(*picture);
  return *decode({file.op, whole, file.name, file.options}, nullptr);
}

std::vector<std::uint8_t> encode_jpeg(const Raster& raster, const std::string& name, int quality) {
  Compressor writer;
  jpeg_compress_struct& codec = writer.codec;
  const bool ok = guarded(writer.errors, [&] {
    jpeg_create_compress(&codec);
    codec.dest = &writer.destination.base;
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
  if (writer.errors.out_of_memory) fail_memory("write_jpeg", name);
  ADJOINT_CHECK(ok, "write_jpeg: cannot encode '{}': {}", name, writer.errors.message);
  return std::move(writer.destination.bytes);
}

}  // namespace adjoint::data
