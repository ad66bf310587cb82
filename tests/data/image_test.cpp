#include <adjoint/core/error.h>
#include <adjoint/core/file.h>
#include <adjoint/core/random.h>
#include <adjoint/data/codec.h>
#include <adjoint/data/image.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

struct Fixture {
  std::string name;
  Bytes file;
  Shape shape;
  int top = 255;
  int tolerance = 0;
  std::vector<int> values;
};

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

const std::vector<Fixture>& fixtures() {
  static const std::vector<Fixture> all = [] {
    std::ifstream file(fs::path(ADJOINT_FIXTURES) / "images.json");
    std::vector<Fixture> result;
    for (const auto& entry : nlohmann::json::parse(file)) {
      const auto shape = entry["shape"].get<std::vector<std::int64_t>>();
      result.push_back({entry["name"], from_hex(entry["file"]), Shape(shape), entry["top"], entry["tolerance"],
                        entry["values"].get<std::vector<int>>()});
    }
    return result;
  }();
  return all;
}

const Fixture& fixture(const std::string& name) {
  for (const Fixture& f : fixtures()) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no fixture " + name);
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor noise(const Shape& shape, std::uint64_t seed = 1) {
  std::vector<int> values;
  Generator generator(seed);
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<int>(generator.below(256)));
  return Tensor::from_vector(values, shape, {.dtype = kUInt8});
}

class ImageFixtures : public testing::TestWithParam<std::size_t> {};

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

INSTANTIATE_TEST_SUITE_P(Files, ImageFixtures, testing::Range<std::size_t>(0, fixtures().size()),
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
  const fs::path folder = fs::path(testing::TempDir()) / "adjoint_image_write";
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
            "write_png: cannot create a file beside '" + (folder / "none" / "a.png").string() +
                "': No such file or directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  fs::remove_all(folder);
}

TEST(Image, RejectsWhatIsNoPicture) {
  EXPECT_EQ(message_of([] { encode_png({}); }), "write_png: the picture must be defined; got an undefined Tensor");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({5, 2, 2}));
            }),
            "write_png: a picture must be (C, H, W) with 1 to 4 channels; got (5, 2, 2)");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({3, 0, 2}));
            }),
            "write_png: height and width must be from 1 to 2147483647; got (3, 0, 2)");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}, {.dtype = kInt32}));
            }),
            "write_png: a picture must be uint8 or floating point; got int32");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}), {.bit_depth = 4});
            }),
            "write_png: bit_depth must be 8 or 16; got 4");
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({1, 2, 2}), {.compression = 10});
            }),
            "write_png: compression must be from 0 to 9; got 10");
  EXPECT_EQ(message_of([] {
              encode_jpeg(Tensor::zeros({4, 2, 2}));
            }),
            "write_jpeg: JPEG holds 1 or 3 channels; got (4, 2, 2); drop alpha with to_channels, or write a PNG");
  EXPECT_EQ(message_of([] {
              encode_jpeg(Tensor::zeros({1, 2, 2}), {.quality = 0});
            }),
            "write_jpeg: quality must be from 1 to 100; got 0");
}

TEST(Image, RejectsOtherFilesHugePicturesAndDtypes) {
  const Bytes text = {'h', 'e', 'l', 'l', 'o'};
  EXPECT_EQ(message_of([&] { decode_image(text, {}, "a.png"); }),
            "read_image: 'a.png' must be a PNG or JPEG file; got 5 bytes of something else");
  EXPECT_EQ(message_of([&] { decode_image({}, {}, "a.png"); }),
            "read_image: 'a.png' must be a PNG or JPEG file; got 0 bytes of something else");
  EXPECT_EQ(message_of([&] { decode_image(fixture("png_rgb_8").file, {.max_pixels = 54}, "a.png"); }),
            "read_image: 'a.png' must have at most 54 pixels; got 11 x 5 = 55");
  EXPECT_EQ(message_of([&] { decode_image(fixture("jpeg_rgb").file, {.max_pixels = 100}, "a.jpg"); }),
            "read_image: 'a.jpg' must have at most 100 pixels; got 26 x 19 = 494");
  EXPECT_EQ(message_of([&] { decode_image(fixture("png_rgb_8").file, {.dtype = kInt64}); }),
            "read_image: dtype must be uint8 or float32; got int64");
}

TEST(Image, AShortFileThatClaimsAHugePictureCostsNoMemory) {
  Bytes file = fixture("png_rgb_8").file;
  const Bytes big = {0, 0, 0x3a, 0x98, 0, 0, 0x3a, 0x98};  // 15000 x 15000
  std::copy(big.begin(), big.end(), file.begin() + 16);
  const Bytes checksum = {0x51, 0x76, 0x5e, 0xf2};  // of that header
  std::copy(checksum.begin(), checksum.end(), file.begin() + 29);
  EXPECT_EQ(message_of([&] { decode_image(file, {}, "a.png"); }),
            "read_image: 'a.png' is a damaged PNG file: " + std::to_string(file.size()) +
                " bytes cannot hold its 15000 x 15000 pixels");
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

TEST(Image, ExifBlocksOfAnyShapeAreSurvived) {
  const Bytes block = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 8, 0, 0, 0};
  EXPECT_EQ(exif_orientation(block), 8);
  for (std::size_t size = 0; size < 20; ++size) EXPECT_EQ(exif_orientation({block.data(), size}), 1) << size;
  Bytes changed = block;
  changed[18] = 9;
  EXPECT_EQ(exif_orientation(changed), 1);
  changed = block;
  changed[4] = 0xff;  // the directory lies outside
  EXPECT_EQ(exif_orientation(changed), 1);
  changed = block;
  changed[12] = 4;  // not a short
  EXPECT_EQ(exif_orientation(changed), 1);
}

}  // namespace
}  // namespace adjoint::data
