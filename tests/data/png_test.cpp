// PNG files that were made to hurt: chunks that announce or unpack to much, and damage.
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

std::vector<int> pixels(const Bytes& file, const ReadImageOptions& options = {}) {
  return decode_image(file, options).to_vector<int>();
}

TEST(Png, AShortFileThatClaimsAHugePictureIsDamaged) {
  Bytes file = png_header(15000, 15000, 8, 2);
  append(file, png_chunk("IDAT", Bytes(100)));
  EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
            "decode_image: 'a.png' is a damaged PNG file: " + std::to_string(file.size()) +
                " bytes cannot hold its 15000 x 15000 pixels");
  // Bytes that hold no samples do not count.
  insert(file, kPngHeaderEnd, png_chunk("zTXt", Bytes(1 << 20)));
  EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
            "decode_image: 'a.png' is a damaged PNG file: " + std::to_string(file.size()) +
                " bytes cannot hold its 15000 x 15000 pixels");
}

TEST(Png, AChunkIsNoLongerThanTheFile) {
  for (const char* type : {"iTXt", "iCCP", "eXIf", "PLTE", "tRNS", "IDAT", "ABCD", "IEND"}) {
    for (const std::uint32_t length : {100U, 1'700'000'000U, 0x7fffffffU, 0xffffffffU}) {
      Bytes file = png_header(1, 1, 8, 0);
      append(file, big_endian(length));
      append(file, Bytes(type, type + 4));
      append(file, Bytes(99 + 4));
      EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
                "decode_image: 'a.png' is a damaged PNG file: the file ends too early: 99 bytes are left of " +
                    std::to_string(length))
          << type;
      file.resize(kPngHeaderEnd + 11);
      EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
                "decode_image: 'a.png' is a damaged PNG file: the file ends too early")
          << type;
    }
  }
}

TEST(Png, TextAndProfilesAreNotLookedAt) {
  const Bytes& plain = fixture("png_palette_4_transparent").file;
  const std::vector<int> expected = pixels(plain);
  for (const char* type : {"tEXt", "zTXt", "iTXt", "iCCP", "sPLT", "gAMA", "hIST", "vpAg"}) {
    Bytes file = plain;
    for (const std::size_t at : {plain.size() - 12, kPngHeaderEnd}) {
      Bytes chunk = png_chunk(type, {'k', 0, 0, 0x78, 0x9c, 1, 2, 3});
      chunk.back() ^= 1;  // damaged, which changes no sample
      for (int i = 0; i < 50; ++i) insert(file, at, chunk);
    }
    EXPECT_EQ(pixels(file), expected) << type;
  }
  Bytes file = plain;
  insert(file, kPngHeaderEnd, png_chunk("ABCD", {1, 2, 3}));
  EXPECT_NE(message_of([&] { decode_image(file); }).find("ABCD: unhandled critical chunk"), std::string::npos);
}

TEST(Png, DamagedTransparencyIsAnError) {
  for (const char* name : {"png_palette_4_transparent", "png_grey_8_key", "png_rgb_8_exif6"}) {
    Bytes file = fixture(name).file;
    const std::string type = std::string(name).ends_with("exif6") ? "eXIf" : "tRNS";
    const auto at = std::search(file.begin(), file.end(), type.begin(), type.end());
    ASSERT_NE(at, file.end());
    at[4] ^= 1;
    EXPECT_NE(message_of([&] { decode_image(file); }).find("CRC error"), std::string::npos) << name;
    EXPECT_EQ(message_of([&] { decode_image(file, {.damaged = true}); }), "no error") << name;
  }
}

TEST(Png, BoundsInBytes) {
  // 16,384 x 16,384 pixels of RGBA in 16 bits: a file of 2 MB can hold them, and they need 2 GB as stored.
  Bytes file = png_header(16384, 16384, 16, 6);
  append(file, png_chunk("IDAT", Bytes(2'100'000)));
  EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
            "decode_image: 'a.png' must be read in at most 1073741824 bytes of memory; got 16384 x 16384 pixels of 4 "
            "channels, which take " +
                std::to_string((std::int64_t{12} << 28) + static_cast<std::int64_t>(file.size())) +
                "; raise max_bytes");

  // 11 x 5 pixels: the file, plus the larger of two sums: the samples and four of their rows; the samples and the
  // tensor, or the tensor that they are converted to.
  const auto takes = [](const std::string& name, ReadImageOptions options, std::int64_t bytes) {
    const Bytes& sound = fixture(name).file;
    bytes += static_cast<std::int64_t>(sound.size());
    options.max_bytes = bytes;
    EXPECT_EQ(message_of([&] { decode_image(sound, options); }), "no error") << name;
    options.max_bytes = bytes - 1;
    EXPECT_NE(message_of([&] { decode_image(sound, options); }).find("which take " + std::to_string(bytes) + "; raise"),
              std::string::npos)
        << name;
  };
  takes("png_grey_8", {}, 55 + 55);
  takes("png_grey_8", {.dtype = kFloat32}, 55 + 4 * 55);
  takes("png_grey_1", {}, 55 + 55);
  takes("png_grey_8", {.channels = Channels::kRGBA}, 55 + 4 * 55);
  takes("png_rgba_16", {}, 8 * (55 + 4 * 11));
  takes("png_rgba_16", {.dtype = kFloat32}, (8 + 16) * 55);
  takes("png_rgba_16_interlaced", {.dtype = kFloat32}, (8 + 16) * 55);
  takes("png_rgba_16", {.keep_depth = true}, (8 + 16) * 55);
  takes("png_grey_8", {.keep_depth = true}, 55 + 55);
  takes("png_palette_4_transparent", {}, (4 + 4) * 55);
  takes("png_palette_4", {.channels = Channels::kGrey, .dtype = kFloat32}, (12 + 4) * 55);
  takes("png_grey_8_key", {}, (2 + 2) * 55);
}

TEST(Png, NarrowPicturesTakeNoMoreThanTheirSamples) {
  const Tensor tall = Tensor::full({1, 100'000, 1}, 7, {.dtype = kUInt8});
  const Bytes file = encode_png(tall);
  const auto bytes = static_cast<std::int64_t>(file.size()) + 200'000;
  EXPECT_EQ(pixels(file, {.max_bytes = bytes}), std::vector<int>(100'000, 7));
  EXPECT_NE(message_of([&] { decode_image(file, {.max_bytes = bytes - 1}); }).find("raise max_bytes"),
            std::string::npos);
}

TEST(Png, DamagedTakesWhatIsThere) {
  std::vector<int> values;
  for (int i = 0; i < 64 * 64; ++i) values.push_back(1 + i % 251);
  const Bytes file = encode_png(Tensor::from_vector(values, {1, 64, 64}, {.dtype = kUInt8}), {.compression = 0});
  ASSERT_GT(file.size(), 4096U);  // not compressed: a byte of the file is a sample
  for (const std::size_t size : {file.size() - 1, file.size() - 12, std::size_t{3000}, std::size_t{500}}) {
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(message_of([&] { decode_image(part); }), "no error");
    const std::vector<int> got = pixels(part, {.damaged = true});
    std::size_t right = 0;
    while (right < got.size() && got[right] == values[right]) ++right;
    EXPECT_GE(right, size > 4096 ? 4096 : (size - 200) / 65 * 64) << size;
    for (std::size_t i = (right + 63) / 64 * 64; i < got.size(); ++i) ASSERT_EQ(got[i], 0) << i;
  }
  Bytes flipped = file;
  flipped[2000] ^= 0xff;  // a checksum is wrong, and one sample, or two that a filter joins
  EXPECT_NE(message_of([&] { decode_image(flipped); }), "no error");
  const std::vector<int> got = pixels(flipped, {.damaged = true});
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != values[i] ? 1 : 0;
  EXPECT_GE(wrong, 1);
  EXPECT_LT(wrong, 64 * 64);
  EXPECT_NE(message_of([&] { pixels({file.begin(), file.begin() + 40}, {.damaged = true}); }), "no error");
  EXPECT_EQ(pixels(file, {.damaged = true}), values);
}

}  // namespace
}  // namespace adjoint::data
