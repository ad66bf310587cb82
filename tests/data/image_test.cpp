#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/codec.h>
#include <adjoint/data/image.h>
#include <adjoint/data/transforms.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

Tensor noise(const Shape& shape, std::uint64_t seed = 1) {
  std::vector<int> values;
  Generator generator(seed);
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<int>(generator.below(256)));
  return Tensor::from_vector(values, shape, {.dtype = kUInt8});
}

class ImageFixtures : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ImageFixtures, DecodesToTheRightSamples) {
  const Fixture& f = fixtures()[GetParam()];
  const Tensor exact = decode_image(f.file, {.dtype = kFloat32});
  ASSERT_EQ(exact.shape(), f.shape);
  const auto floats = exact.to_vector<float>();
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double difference = std::abs(static_cast<double>(floats[i]) * f.top - f.values[i]);
    ASSERT_LE(difference, f.tolerance + 0.01) << "sample " << i;
  }
  const auto rounded = decode_image(f.file).to_vector<int>();
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const double expected = std::round(f.values[i] * 255.0 / f.top);
    ASSERT_LE(std::abs(rounded[i] - expected), f.tolerance) << "sample " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ImageFixtures, ::testing::Range<std::size_t>(0, fixtures().size()),
                         [](const auto& param) { return fixtures()[param.param].name; });

TEST(Image, PngKeepsEveryChannelCountAndDepth) {
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    const Tensor image = noise({channels, 7, 13});
    for (const int depth : {8, 16}) {
      const Bytes file = encode_png(image, {.bit_depth = depth});
      EXPECT_EQ(file[24], depth) << "IHDR's bit depth";
      const Tensor back = decode_image(file);
      ASSERT_EQ(back.shape(), image.shape());
      EXPECT_EQ(back.to_vector<int>(), image.to_vector<int>());
    }
  }
}

TEST(Image, Png16KeepsSixteenBits) {
  std::vector<float> values(1024);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 64 + 3) / 65535.0F;
  const Tensor image = Tensor::from_vector(values, {1, 32, 32});
  const Tensor back = decode_image(encode_png(image, {.bit_depth = 16}), {.dtype = kFloat32});
  EXPECT_EQ(back.to_vector<float>(), values);
}

TEST(Image, JpegQualityIsUsedAndGreyStaysGrey) {
  const Tensor image = to_uint8(Tensor::full({3, 40, 40}, 0.25));
  EXPECT_EQ(decode_image(encode_jpeg(image)).to_vector<int>(), std::vector<int>(3 * 1600, 64));
  EXPECT_EQ(decode_image(encode_jpeg(noise({1, 9, 9}))).shape(), (Shape{1, 9, 9}));
  const Tensor busy = noise({3, 64, 64});
  EXPECT_LT(encode_jpeg(busy, {.quality = 20}).size() * 2, encode_jpeg(busy, {.quality = 95}).size());
}

TEST(Image, ToUint8ClampsAndRounds) {
  const Tensor image =
      Tensor::from_vector<float>({-1.0F, 0.5F, 2.0F, std::numeric_limits<float>::quiet_NaN()}, {1, 2, 2});
  EXPECT_EQ(to_uint8(image).to_vector<int>(), (std::vector<int>{0, 128, 255, 0}));
  EXPECT_EQ(to_float(to_uint8(image)).to_vector<float>(), (std::vector<float>{0.0F, 128.0F / 255.0F, 1.0F, 0.0F}));
}

TEST(Image, ChannelsConvert) {
  const Tensor rgba = Tensor::from_vector<int>({255, 0, 0, 255, 0, 0, 128, 7}, {4, 1, 2}, {.dtype = kUInt8});
  EXPECT_EQ(to_channels(rgba, Channels::kRGB).to_vector<int>(), (std::vector<int>{255, 0, 0, 255, 0, 0}));
  EXPECT_EQ(to_channels(rgba, Channels::kGrey).to_vector<int>(), (std::vector<int>{76, 150}));
  EXPECT_EQ(to_channels(rgba, Channels::kGreyAlpha).to_vector<int>(), (std::vector<int>{76, 150, 128, 7}));
  const Tensor grey = Tensor::from_vector<float>({0.5F}, {1, 1, 1});
  EXPECT_EQ(to_channels(grey, Channels::kRGBA).to_vector<float>(), (std::vector<float>{0.5F, 0.5F, 0.5F, 1.0F}));
  EXPECT_EQ(decode_image(fixture("png_rgba_16").file, {.channels = Channels::kGrey}).shape(), (Shape{1, 5, 11}));
}

TEST(Image, WritesFilesAtomicallyByExtension) {
  const fs::path folder = fs::path(::testing::TempDir()) / "adjoint_image_write";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Tensor image = noise({3, 6, 5});
  write_image(folder / "a.PNG", image);
  EXPECT_EQ(read_image(folder / "a.PNG").to_vector<int>(), image.to_vector<int>());
  write_image(folder / "b.jpeg", image);
  EXPECT_EQ(image_format(read_file("test", folder / "b.jpeg")), ImageFormat::kJPEG);
  EXPECT_EQ(message_of([&] { write_image(folder / "c.tiff", image); }),
            "write_image: the path must end in .png, .jpg or .jpeg; got '" + (folder / "c.tiff").string() + "'");
  EXPECT_EQ(message_of([&] { write_png(folder / "none" / "a.png", image); }),
            "write_png: cannot create a file next to '" + (folder / "none" / "a.png").string() +
                "': No such file or directory");
  ASSERT_EQ(::mkfifo((folder / "pipe.png").c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { write_image(folder / "pipe.png", image); }),
            "write_image: '" + (folder / "pipe.png").string() +
                "' must be a regular file, or not be there; got a pipe");
  fs::create_symlink("a.PNG", folder / "link.jpg");
  write_image(folder / "link.jpg", image);
  EXPECT_TRUE(fs::is_symlink(folder / "link.jpg"));
  EXPECT_EQ(image_format(read_file("test", folder / "a.PNG")), ImageFormat::kJPEG);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 4);
  fs::remove_all(folder);
}

TEST(Image, DepthIsKeptWhereItIsAskedFor) {
  const fs::path path = fs::path(::testing::TempDir()) / "adjoint_image_depth.png";
  const Tensor image = Tensor::from_vector<float>({0.0F, 1.0F / 65535.0F, 0.5F, 1.0F}, {1, 2, 2});
  write_image(path, image, {.bit_depth = 16});
  const Tensor kept = read_image(path, {.keep_depth = true});
  ASSERT_EQ(kept.dtype(), kFloat32);
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{0.0F, 1.0F / 65535.0F, 32768.0F / 65535.0F, 1.0F}));
  EXPECT_EQ(read_image(path).dtype(), kUInt8);
  write_image(path, image);
  EXPECT_EQ(read_image(path, {.keep_depth = true}).dtype(), kUInt8);
  fs::remove(path);
}

TEST(Image, RejectsWhatIsNoPicture) {
  EXPECT_EQ(message_of([] { encode_png({}); }), "encode_png: the picture must be defined; got an undefined Tensor");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({5, 2, 2}));
            }),
            "encode_png: a picture must be (C, H, W) with 1 to 4 channels; got (5, 2, 2)");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({3, 0, 2}));
            }),
            "encode_png: height and width must be from 1 to 2147483647; got (3, 0, 2)");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}, {.dtype = kInt32}));
            }),
            "encode_png: a picture must be uint8 or floating point; got int32");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}), {.bit_depth = 4});
            }),
            "encode_png: bit_depth must be 8 or 16; got 4");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}), {.compression = 10});
            }),
            "encode_png: compression must be from 0 to 9; got 10");
  EXPECT_EQ(message_of([] {
              encode_jpeg(Tensor::zeros({4, 2, 2}));
            }),
            "encode_jpeg: JPEG holds 1 or 3 channels; got (4, 2, 2); drop alpha with to_channels, or write a PNG");
  EXPECT_EQ(message_of([] {
              encode_jpeg(Tensor::zeros({1, 2, 2}), {.quality = 0});
            }),
            "encode_jpeg: quality must be from 1 to 100; got 0");
}

TEST(Image, RejectsOtherFilesHugePicturesAndDtypes) {
  const Bytes text = {'h', 'e', 'l', 'l', 'o'};
  EXPECT_EQ(message_of([&] { decode_image(text, {}, "a.png"); }),
            "decode_image: 'a.png' must be a PNG or JPEG file; got 5 bytes of something else");
  EXPECT_EQ(message_of([&] { decode_image({}, {}, "a.png"); }),
            "decode_image: 'a.png' must be a PNG or JPEG file; got 0 bytes of something else");
  EXPECT_EQ(message_of([&] { decode_image(fixture("png_rgb_8").file, {.max_pixels = 54}, "a.png"); }),
            "decode_image: 'a.png' must have at most 54 pixels; got 11 x 5 = 55");
  EXPECT_EQ(message_of([&] { decode_image(fixture("jpeg_rgb").file, {.max_pixels = 100}, "a.jpg"); }),
            "decode_image: 'a.jpg' must have at most 100 pixels; got 26 x 19 = 494");
  EXPECT_EQ(message_of([&] { decode_image(fixture("png_rgb_8").file, {.dtype = kInt64}); }),
            "decode_image: dtype must be uint8 or float32; got int64");
}

TEST(Image, EveryTruncationIsAnError) {
  for (const char* name : {"png_rgb_8", "png_grey_alpha_16_interlaced", "png_palette_4_transparent", "jpeg_rgb",
                           "jpeg_cmyk", "jpeg_rgb_progressive", "jpeg_exif6"}) {
    const Bytes& file = fixture(name).file;
    // A JPEG whose last marker alone is missing holds all of its samples; everything shorter lacks some.
    const std::size_t whole = std::string(name).starts_with("jpeg") ? file.size() - 2 : file.size();
    for (std::size_t size = 0; size < whole; ++size) {
      EXPECT_THROW(decode_image({file.data(), size}), Error) << name << " cut to " << size;
    }
  }
}

TEST(Image, DamagedBytesGiveAPictureOrAnErrorNeverAnythingElse) {
  Generator generator(7);
  int errors = 0, pictures = 0;
  for (const Fixture& f : fixtures()) {
    for (int trial = 0; trial < 60; ++trial) {
      Bytes file = f.file;
      const std::uint64_t changes = 1 + generator.below(4);
      for (std::uint64_t i = 0; i < changes; ++i) {
        file[8 + generator.below(file.size() - 8)] = static_cast<std::uint8_t>(generator.below(256));
      }
      try {
        decode_image(file, {.max_pixels = 1 << 22});
        ++pictures;
      } catch (const Error&) {
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 1000);   // PNG checks its bytes
  EXPECT_GT(pictures, 100);  // JPEG does not
}

/// A TIFF block with these entries, each of 12 bytes, and `more` behind its directory.
Bytes tiff(bool big_endian, const std::vector<Bytes>& entries, const Bytes& more = {}) {
  Bytes block = big_endian ? Bytes{'M', 'M', 0, 42, 0, 0, 0, 8, 0, 0} : Bytes{'I', 'I', 42, 0, 8, 0, 0, 0, 0, 0};
  block[big_endian ? 9 : 8] = static_cast<std::uint8_t>(entries.size());
  for (const Bytes& entry : entries) append(block, entry);
  append(block, {0, 0, 0, 0});  // no other directory
  append(block, more);
  return block;
}

TEST(Image, ExifBlocksOfAnyShapeAreSurvived) {
  const Bytes block = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 8, 0, 0, 0};
  EXPECT_EQ(exif_orientation(block), 8);
  for (std::size_t size = 0; size < 20; ++size) EXPECT_EQ(exif_orientation({block.data(), size}), 1) << size;
  Bytes changed = block;
  changed[18] = 9;
  EXPECT_EQ(exif_orientation(changed), 1);
  changed = block;
  changed[4] = 0xff;  // the directory is outside
  EXPECT_EQ(exif_orientation(changed), 1);
  for (const std::uint8_t type : {0, 2, 5, 7, 10, 11, 12, 13, 255}) {  // no whole numbers, or no type
    changed = block;
    changed[12] = type;
    EXPECT_EQ(exif_orientation(changed), 1) << int{type};
  }
  changed = block;
  changed[14] = 0;  // no value
  EXPECT_EQ(exif_orientation(changed), 1);
  for (const auto& [first, second] : {std::pair{'I', 'M'}, {'M', 'I'}, {'X', 'X'}}) {  // no byte order
    changed = block;
    changed[0] = static_cast<std::uint8_t>(first);
    changed[1] = static_cast<std::uint8_t>(second);
    EXPECT_EQ(exif_orientation(changed), 1) << first << second;
  }
}

TEST(Image, ExifOrientationOfEveryWholeNumber) {
  for (std::uint8_t o = 1; o <= 8; ++o) {
    for (const std::uint8_t type : {1, 6}) {  // BYTE, SBYTE
      EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, type, 0, 1, 0, 0, 0, o, 0, 0, 0}})), o);
      EXPECT_EQ(exif_orientation(tiff(true, {{1, 0x12, 0, type, 0, 0, 0, 1, o, 0, 0, 0}})), o);
    }
    for (const std::uint8_t type : {3, 8}) {  // SHORT, SSHORT
      EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, type, 0, 1, 0, 0, 0, o, 0, 0, 0}})), o);
      EXPECT_EQ(exif_orientation(tiff(true, {{1, 0x12, 0, type, 0, 0, 0, 1, 0, o, 0, 0}})), o);
    }
    for (const std::uint8_t type : {4, 9}) {  // LONG, SLONG
      EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, type, 0, 1, 0, 0, 0, o, 0, 0, 0}})), o);
      EXPECT_EQ(exif_orientation(tiff(true, {{1, 0x12, 0, type, 0, 0, 0, 1, 0, 0, 0, o}})), o);
    }
  }
  // Only a LONG reads four bytes; 65,536 + 6 is no orientation.
  EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, 4, 0, 1, 0, 0, 0, 6, 0, 1, 0}})), 1);
  EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 1, 0}})), 6);
  // Several values: the first counts, and more than four bytes of them follow the directory, at byte 26.
  EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, 3, 0, 2, 0, 0, 0, 6, 0, 3, 0}})), 6);
  EXPECT_EQ(exif_orientation(tiff(false, {{0x12, 1, 3, 0, 3, 0, 0, 0, 26, 0, 0, 0}}, {5, 0, 3, 0, 4, 0})), 5);
  EXPECT_EQ(exif_orientation(tiff(true, {{1, 0x12, 0, 4, 0, 0, 0, 2, 0, 0, 0, 26}}, {0, 0, 0, 7, 0, 0, 0, 1})), 7);
  EXPECT_EQ(exif_orientation(tiff(true, {{1, 0x12, 0, 4, 0, 0, 0, 2, 0, 0, 1, 26}}, {0, 0, 0, 7, 0, 0, 0, 1})), 1);
}

TEST(Image, WideRowsAreTakenApartAlikeInEveryInstructionSet) {
  const Tensor image = noise({3, 5, 211});
  const Bytes png = encode_png(image), deep = encode_png(image, {.bit_depth = 16}), jpeg = encode_jpeg(image);
  // Rows that are stored from right to left go element by element.
  Bytes segment{0xff, 0xe1, 0, 0, 'E', 'x', 'i', 'f', 0, 0}, mirrored = jpeg;
  append(segment, tiff(false, {{0x12, 1, 3, 0, 1, 0, 0, 0, 2, 0, 0, 0}}));
  segment[3] = static_cast<std::uint8_t>(segment.size() - 2);
  insert(mirrored, 2, segment);
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > best_cpu_isa()) break;
    const CpuIsaGuard guard(isa);
    EXPECT_EQ(decode_image(png).to_vector<int>(), image.to_vector<int>());
    EXPECT_EQ(decode_image(deep).to_vector<int>(), image.to_vector<int>());
    for (const DType dtype : {kUInt8, kFloat32}) {
      const Tensor flipped = flip_horizontal(decode_image(mirrored, {.dtype = dtype}));
      EXPECT_EQ(decode_image(jpeg, {.dtype = dtype}).to_vector<double>(), flipped.to_vector<double>());
    }
    EXPECT_EQ(decode_image(png, {.dtype = kFloat32}).to_vector<float>(), to_float(image).to_vector<float>());
  }
}

TEST(Image, ExifOrientationBehindOtherEntries) {
  const Bytes little_width = {0, 1, 4, 0, 1, 0, 0, 0, 8, 0, 0, 0}, little = {0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  const Bytes big_width = {1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 8}, big = {1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0};
  for (std::size_t before = 0; before < 4; ++before) {
    std::vector<Bytes> entries(before, little_width);
    entries.push_back(little);
    EXPECT_EQ(exif_orientation(tiff(false, entries)), 6) << before;
    entries.assign(before, big_width);
    entries.push_back(big);
    EXPECT_EQ(exif_orientation(tiff(true, entries)), 6) << before;
    entries.push_back(big_width);
    EXPECT_EQ(exif_orientation(tiff(true, entries)), 6) << before;
  }
}

TEST(Image, ALongOrientationTurnsThePicture) {
  Bytes file = fixture("jpeg_rgb").file;
  Bytes segment = {0xff, 0xe1, 0, 0, 'E', 'x', 'i', 'f', 0, 0};
  append(segment, tiff(true, {{1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 26}, {1, 0x12, 0, 4, 0, 0, 0, 1, 0, 0, 0, 6}}));
  segment[3] = static_cast<std::uint8_t>(segment.size() - 2);
  insert(file, 2, segment);
  EXPECT_EQ(decode_image(file).to_vector<int>(), decode_image(fixture("jpeg_exif6").file).to_vector<int>());
}

}  // namespace
}  // namespace adjoint::data
