// Damaged JPEG files, odd ones that lose nothing, and ones that were made to hurt.
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/image.h>
#include <adjoint/tests/data/image_files.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

std::vector<int> pixels(const Bytes& file, const ReadImageOptions& options = {}) {
  return decode_image(file, options).to_vector<int>();
}

std::string error_of(const Bytes& file) {
  const std::string message = message_of([&] { decode_image(file, {}, "a.jpg"); });
  const std::string start = "decode_image: 'a.jpg' is a damaged JPEG file: ";
  return message.starts_with(start) ? message.substr(start.size()) : message;
}

BlockJpeg noisy(std::uint32_t columns, std::uint32_t rows, std::uint32_t restart_interval = 0) {
  BlockJpeg jpeg{columns, rows, {}, restart_interval};
  Generator generator(3);
  for (std::uint32_t i = 0; i < columns * rows; ++i) jpeg.levels.push_back(8 + static_cast<int>(generator.below(240)));
  return jpeg;
}

TEST(Jpeg, BlocksOfOneLevelDecodeExactly) {
  for (const std::uint32_t interval : {0U, 1U, 3U, 7U}) {
    const BlockJpeg jpeg = noisy(9, 5, interval);
    EXPECT_EQ(pixels(jpeg.file()), jpeg.pixels()) << interval;
    EXPECT_EQ(pixels(jpeg.file(), {.damaged = true}), jpeg.pixels()) << interval;
  }
}

TEST(Jpeg, StrayBytesBetweenSegmentsChangeNothing) {
  const BlockJpeg blocks = noisy(6, 4, 5);
  for (const Bytes& file : {blocks.file(), fixture("jpeg_rgb").file, fixture("jpeg_cmyk").file,
                            fixture("jpeg_rgb_progressive").file, fixture("jpeg_exif6").file}) {
    const std::vector<int> expected = pixels(file);
    for (const std::size_t at : jpeg_markers(file)) {
      if (at == 2) continue;  // the first three bytes identify the format
      // After a scan, the stray bytes are some that its decoder swallows, or constant padding.
      const bool after_scan =
          at + 2 == file.size() || std::count(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(at), 0xda) > 0;
      const std::vector<Bytes> strays =
          after_scan ? std::vector<Bytes>{Bytes(1), Bytes(6), Bytes(100), Bytes(20, 0x20)}
                     : std::vector<Bytes>{{7},
                                          {1, 2, 3},
                                          {0xff, 0, 1},
                                          {'c', 'a', 'm', 'e', 'r', 'a', ' ', 'n', 'o', 't', 'e'}};
      for (const Bytes& stray : strays) {
        Bytes changed = file;
        insert(changed, at, stray);
        EXPECT_EQ(pixels(changed), expected) << stray.size() << " bytes at " << at << " of " << file.size();
      }
      Bytes filled = file;
      insert(filled, at, Bytes(9, 0xff));  // which the standard allows
      EXPECT_EQ(pixels(filled), expected) << at;
    }
  }
}

TEST(Jpeg, SamplesThatNothingReadsAreLost) {
  for (const Bytes& file : {noisy(6, 4).file(), fixture("jpeg_rgb").file, fixture("jpeg_rgb_progressive").file}) {
    const std::vector<int> expected = pixels(file);
    Bytes more = file;
    insert(more, file.size() - 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    EXPECT_NE(error_of(more).find("extraneous bytes before marker 0xd9"), std::string::npos) << error_of(more);
    EXPECT_EQ(pixels(more, {.damaged = true}), expected);
  }
  const BlockJpeg jpeg = noisy(6, 4, 6);
  std::vector<Bytes> parts = jpeg.intervals();
  append(parts[1], parts[2]);  // as if a restart marker was lost
  EXPECT_NE(error_of(jpeg.file(parts)).find("extraneous bytes before marker"), std::string::npos);
}

TEST(Jpeg, CutScansLoseSamples) {
  const BlockJpeg jpeg = noisy(16, 16);
  const Bytes file = jpeg.file();
  const std::vector<int> expected = jpeg.pixels();
  for (const std::size_t lost : {2U, 3U, 10U, 100U}) {
    Bytes cut(file.begin(), file.end() - static_cast<std::ptrdiff_t>(lost));
    if (lost > 4) {
      EXPECT_EQ(error_of(cut), "Premature end of JPEG file");
    }
    const std::vector<int> got = pixels(cut, {.damaged = true});
    EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + 8 * 128, got.begin())) << lost;
    append(cut, {0xff, 0xd9});
    if (lost > 4) {
      EXPECT_EQ(error_of(cut), "Corrupt JPEG data: premature end of data segment");
    }
    EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + 8 * 128, pixels(cut, {.damaged = true}).begin()));
  }
}

// A truncated file is accepted as whole only if it has every sample.
TEST(Jpeg, TheEndMarkerAloneMayBeMissing) {
  std::vector<Bytes> files{noisy(6, 4).file(), noisy(6, 4, 3).file()};
  for (const Fixture& picture : fixtures()) {
    if (picture.name.starts_with("jpeg")) files.push_back(picture.file);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Bytes& file = files[i];
    const std::vector<int> expected = pixels(file);
    ASSERT_EQ(file[file.size() - 1], 0xd9);
    for (std::size_t end = file.size() - 2; end > file.size() / 2; --end) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(end));
      const bool is_whole = end == file.size() - 2;
      try {
        EXPECT_EQ(pixels(cut), expected) << "file " << i << " up to " << end << " of " << file.size();
      } catch (const Error& error) {
        EXPECT_FALSE(is_whole) << i << ": " << error.what();
      }
    }
    Bytes half(file.begin(), file.end() - 1);  // its first byte
    EXPECT_EQ(pixels(half), expected) << i;
    Bytes comment(file.begin(), file.end() - 2);
    append(comment, {0xff, 0xfe, 0, 90, 'c', 'u', 't'});
    const bool several = std::count(file.begin(), file.end(), 0xda) > 1;
    if (!several) {
      EXPECT_EQ(pixels(comment), expected) << i;
    }
  }
}

TEST(Jpeg, RestartMarkersThatAreNotTheNextResynchronise) {
  const BlockJpeg jpeg = noisy(8, 6, 8);  // an interval is a row of blocks
  const std::vector<int> expected = jpeg.pixels();
  const std::vector<Bytes> parts = jpeg.intervals();
  const auto row = [](const std::vector<int>& values, int y) {
    return std::vector<int>(values.begin() + y * 512, values.begin() + (y + 1) * 512);
  };
  // The third row is lost with its marker: libjpeg finds the place again.
  std::vector<Bytes> others = parts;
  Bytes file = jpeg.file(parts);
  const std::size_t begin = jpeg.header().size() + parts[0].size() + 2 + parts[1].size();
  file.erase(file.begin() + static_cast<std::ptrdiff_t>(begin),
             file.begin() + static_cast<std::ptrdiff_t>(begin + parts[2].size() + 2));
  EXPECT_NE(error_of(file).find("found marker 0xd2 instead of RST1"), std::string::npos) << error_of(file);
  const std::vector<int> got = pixels(file, {.damaged = true});
  for (const int y : {0, 1, 3, 4, 5}) EXPECT_EQ(row(got, y), row(expected, y)) << y;
  EXPECT_NE(row(got, 2), row(expected, 2));
  // A row that is short of data spoils no other.
  others[3].resize(2);
  EXPECT_EQ(error_of(jpeg.file(others)), "Corrupt JPEG data: premature end of data segment");
  const std::vector<int> rest = pixels(jpeg.file(others), {.damaged = true});
  for (const int y : {0, 1, 2, 4, 5}) EXPECT_EQ(row(rest, y), row(expected, y)) << y;
}

TEST(Jpeg, BadCodesAreFoundInMemoryAndInFiles) {
  // Large enough for libjpeg's fast decoder, which reads an invalid code as a zero.
  const BlockJpeg jpeg = noisy(64, 64);
  Bytes file = jpeg.file();
  const std::size_t middle = jpeg.header().size() + jpeg.intervals()[0].size() / 4;
  file[middle] = 0xf7;  // 1111 is not a DC code, and 1 not an AC code
  EXPECT_EQ(error_of(file), "Corrupt JPEG data: bad Huffman code");
  EXPECT_EQ(decode_image(file, {.damaged = true}).shape(), (Shape{1, 512, 512}));
  const fs::path path = fs::path(::testing::TempDir()) / "adjoint_bad_code.jpg";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  EXPECT_EQ(message_of([&] { read_image(path); }),
            "read_image: '" + path.string() + "' is a damaged JPEG file: Corrupt JPEG data: bad Huffman code");
  fs::remove(path);
}

TEST(Jpeg, ScansInAnOddOrderLoseNothing) {
  const Bytes& file = fixture("jpeg_rgb_progressive").file;
  const std::vector<int> expected = pixels(file);
  const JpegParts parts(file);
  ASSERT_EQ(parts.file(), file);
  ASSERT_EQ(parts.scans.size(), 10U);
  const auto with = [&](const auto& change) {
    JpegParts changed = parts;
    change(changed.scans);
    return changed.file();
  };
  // 0: DC; 1 to 4: AC first; 5 and 7 to 9: AC refined; 6: DC refined.
  const Bytes ac_before_dc =
      with([](auto& scans) { std::rotate(scans.begin(), scans.begin() + 1, scans.begin() + 5); });
  EXPECT_EQ(pixels(ac_before_dc), expected);
  EXPECT_EQ(pixels(ac_before_dc, {.damaged = true}), expected);
  for (const int again : {0, 1, 2, 3, 4}) {
    const Bytes repeated = with([&](auto& scans) { scans.insert(scans.begin() + again, scans[again]); });
    EXPECT_EQ(pixels(repeated), expected) << again;
  }
  const Bytes refined_twice = with([](auto& scans) { scans.insert(scans.begin() + 7, scans[6]); });
  EXPECT_EQ(pixels(refined_twice), expected);
}

TEST(Jpeg, ScansAreBounded) {
  const Bytes& file = fixture("jpeg_rgb_progressive").file;
  JpegParts parts(file);
  while (parts.scans.size() < 64) parts.scans.insert(parts.scans.begin(), parts.scans[0]);
  EXPECT_EQ(pixels(parts.file()), pixels(file));
  parts.scans.insert(parts.scans.begin(), parts.scans[0]);
  EXPECT_EQ(error_of(parts.file()), "more than 64 scans");
}

TEST(Jpeg, ScansThatAreMissingLoseSamples) {
  const Bytes& file = fixture("jpeg_rgb_progressive").file;
  const auto without = [&](std::ptrdiff_t scan) {
    JpegParts parts(file);
    parts.scans.erase(parts.scans.begin() + scan);
    return parts.file();
  };
  EXPECT_EQ(error_of(without(0)), "Inconsistent progression sequence for component 0 coefficient 0");
  EXPECT_EQ(error_of(without(1)), "Inconsistent progression sequence for component 0 coefficient 1");
  EXPECT_EQ(error_of(without(5)), "Inconsistent progression sequence for component 0 coefficient 1");
  for (const int scan : {0, 1, 5})
    EXPECT_EQ(decode_image(without(scan), {.damaged = true}).shape(), (Shape{3, 19, 26}));
  JpegParts parts(file);
  parts.scans.assign({parts.scans[1], parts.scans[2]});  // of the three, without their means
  EXPECT_EQ(error_of(parts.file()), "it lacks samples of a component");
}

TEST(Jpeg, DamagedTakesTheScansThatWereRead) {
  // An invalid table between two scans: the data read before it is a picture, if a coarse one.
  JpegParts parts(fixture("jpeg_rgb_progressive").file);
  Bytes broken = parts.scans[5];
  ASSERT_EQ(broken[1], 0xc4);
  broken[4] = 0x33;  // no such table
  std::vector<Bytes> before(parts.scans.begin(), parts.scans.begin() + 5);
  parts.scans[5] = broken;
  EXPECT_EQ(error_of(parts.file()), "Bogus DHT index 35");
  const std::vector<int> got = pixels(parts.file(), {.damaged = true});
  parts.scans = before;
  EXPECT_EQ(got, pixels(parts.file()));
  Bytes header = BlockJpeg{4, 4, {}, 0}.file();
  header[9] = 0;  // a quantiser that divides by nothing is not libjpeg's concern; a broken table in the header is
  header[BlockJpeg{4, 4, {}, 0}.header().size() - 10 - 22 + 4] = 0x33;
  EXPECT_NE(message_of([&] { decode_image(header, {.damaged = true}); }), "no error");
}

TEST(Jpeg, NoiseIsAnErrorOrGoesUnnoticed) {
  const BlockJpeg jpeg = noisy(24, 18, 0);
  const Bytes file = jpeg.file();
  const std::size_t scan = jpeg.header().size();
  Generator generator(11);
  int errors = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Bytes noised = file;
    for (int i = 0; i < 1 + trial % 4; ++i) {
      noised[scan + generator.below(file.size() - 2 - scan)] = static_cast<std::uint8_t>(generator.below(256));
    }
    EXPECT_EQ(decode_image(noised, {.damaged = true}).shape(), (Shape{1, 144, 192})) << trial;
    errors += message_of([&] { decode_image(noised); }) == "no error" ? 0 : 1;
  }
  EXPECT_GT(errors, 250);
}

TEST(Jpeg, AShortFileThatClaimsAHugePictureIsDamaged) {
  const auto claims = [](Bytes file, std::uint8_t frame) {  // 16,384 x 16,384
    std::size_t at = 0;
    while (file[at] != 0xff || file[at + 1] != frame) ++at;
    file[at + 5] = file[at + 7] = 0x40;
    file[at + 6] = file[at + 8] = 0;
    return file;
  };
  for (const auto& [name, frame] : {std::pair{"jpeg_rgb", 0xc0}, {"jpeg_grey", 0xc0}, {"jpeg_rgb_progressive", 0xc2}}) {
    Bytes file = claims(fixture(name).file, static_cast<std::uint8_t>(frame));
    const ReadImageOptions options{.max_bytes = std::int64_t{1} << 33};
    const auto refused = [&] {
      return message_of([&] { decode_image(file, options, "a.jpg"); }) ==
             "decode_image: 'a.jpg' is a damaged JPEG file: " + std::to_string(file.size()) +
                 " bytes cannot hold its 16384 x 16384 pixels";
    };
    EXPECT_TRUE(refused()) << name;
    // Bytes that hold no samples do not count.
    Bytes comment(0xffff + 2, ' ');
    std::copy_n(Bytes{0xff, 0xfe, 0xff, 0xff}.begin(), 4, comment.begin());
    Bytes comments;
    for (int i = 0; i < 40; ++i) append(comments, comment);
    insert(file, 2, comments);
    EXPECT_TRUE(refused()) << name << " with comments";
  }
}

TEST(Jpeg, TheSmallestFilesOfAPictureAreRead) {
  // 2 bits a block: the minimum of a real scan. Each table has one code, of 1 bit: for no difference in level, and for
  // a block's end.
  BlockJpeg flat{64, 64, {}, 0};
  Bytes file = flat.header();
  const std::size_t table = file.size() - 10 - 22 - 33;
  file.erase(file.begin() + static_cast<std::ptrdiff_t>(table), file.begin() + static_cast<std::ptrdiff_t>(table) + 33);
  insert(file, table, {0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  append(file, Bytes(64 * 64 * 2 / 8));
  append(file, {0xff, 0xd9});
  EXPECT_EQ(pixels(file), std::vector<int>(512 * 512, 128));
}

TEST(Jpeg, AProgressiveScanHoldsABlockABitAtMost) {
  const auto error_of_row = [](std::uint8_t blocks) {  // of a scan of two bytes, whose code nothing defines
    Bytes file{0xff, 0xd8, 0xff, 0xc2, 0, 11, 8, 0, 8, 0, static_cast<std::uint8_t>(8 * blocks), 1, 1, 0x11, 0};
    append(file, {0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xd9});
    return error_of(file);
  };
  EXPECT_EQ(error_of_row(16).find("cannot hold"), std::string::npos) << error_of_row(16);
  EXPECT_EQ(error_of_row(17), "29 bytes cannot hold its 136 x 8 pixels");
}

TEST(Jpeg, BoundsInBytes) {
  const auto takes = [](const std::string& name, ReadImageOptions options, std::int64_t bytes) {
    const Bytes& file = fixture(name).file;
    bytes += static_cast<std::int64_t>(file.size());
    options.max_bytes = bytes;
    EXPECT_EQ(message_of([&] { decode_image(file, options); }), "no error") << name;
    options.max_bytes = bytes - 1;
    EXPECT_NE(message_of([&] { decode_image(file, options); }).find("which take " + std::to_string(bytes) + "; raise"),
              std::string::npos)
        << name;
  };
  constexpr std::int64_t kPixels = 26 * 19;
  takes("jpeg_grey", {}, kPixels);
  takes("jpeg_rgb", {}, 3 * kPixels);
  takes("jpeg_rgb", {.dtype = kFloat32}, 12 * kPixels);
  takes("jpeg_rgb", {.channels = Channels::kRGBA}, 7 * kPixels);
  takes("jpeg_cmyk", {.channels = Channels::kRGB}, 3 * kPixels);
  // 4 x 3 blocks of luma and 2 x 2 of each chroma, 128 bytes a block, are held with the picture.
  takes("jpeg_rgb_progressive", {}, 20 * 128 + 3 * kPixels);
  takes("jpeg_rgb_progressive", {.dtype = kFloat32}, 20 * 128 + 12 * kPixels);
}

}  // namespace
}  // namespace adjoint::data
