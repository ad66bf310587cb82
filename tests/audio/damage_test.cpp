// Sound files that are damaged, were never finished, or do not state their length.
#include <adjoint/data/audio/audio.h>

#include <adjoint/core/base/file.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

class DamagedAudio : public testing::TempFolder {
 protected:
  std::string bytes(const char* name) const {
    const std::vector<std::uint8_t> all = read_file("test", folder / name);
    return {all.begin(), all.end()};
  }
  fs::path put(const char* name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return folder / name;
  }
  /// A tone with noise, of 16 bits, which compresses to blocks of many kinds; three blocks of libsndfile's FLAC.
  static Tensor sound(std::int64_t frames = 10000) {
    std::mt19937 random(7);
    std::vector<float> values;
    for (std::int64_t i = 0; i < 2 * frames; ++i) {
      const double tone =
          9000.0 * std::sin(0.02 * static_cast<double>(i % frames)) + static_cast<double>(random() % 200);
      values.push_back(static_cast<float>(std::round(tone)) / 32768.0F);
    }
    return Tensor::from_vector(values, {2, frames});
  }
};

std::string flipped(std::string bytes, std::size_t at, int bit) {
  bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ 1U << bit);
  return bytes;
}

#ifdef ADJOINT_WITH_FLAC

// STREAMINFO is at 8: sizes of blocks (10 bytes), and from 18 on 20 bits of a rate, 3 of channels, 5 of bits, 36 of
// frames; the MD5 is at 26.
constexpr std::size_t kFramesAt = 21, kMd5At = 26, kBlocksAfter = 42;

/// As an encoder leaves it that writes to a pipe.
std::string streamed(std::string flac) {
  flac[kFramesAt] = static_cast<char>(flac[kFramesAt] & 0xf0);
  for (std::size_t i = kFramesAt + 1; i < kBlocksAfter; ++i) flac[i] = 0;
  return flac;
}

std::vector<std::size_t> blocks_of(const std::string& flac) {
  std::vector<std::size_t> found;
  for (std::size_t at = flac.find("\xff\xf8"); at != std::string::npos; at = flac.find("\xff\xf8", at + 1)) {
    found.push_back(at);
  }
  return found;
}

TEST_F(DamagedAudio, AFlippedBitOfFlacIsFound) {
  const Tensor want = sound();
  write_audio(folder / "a.flac", want, 22050);
  const std::string whole = bytes("a.flac");
  const std::vector<float> values = want.to_vector<float>();
  std::size_t found = 0, tried = 0;
  const auto try_bit = [&](std::size_t at, int bit) {
    const fs::path path = put("b.flac", flipped(whole, at, bit));
    ++tried;
    try {
      const Audio read = read_audio(path);
      EXPECT_EQ(read.samples.to_vector<float>(), values) << "bit " << bit << " of byte " << at;
      EXPECT_EQ(read.sample_rate, 22050) << "bit " << bit << " of byte " << at;
    } catch (const Error& error) {
      ++found;
      EXPECT_NE(std::string(error.what()).find("b.flac"), std::string::npos) << error.what();
    }
  };
  for (std::size_t at = 0; at < kBlocksAfter; ++at) try_bit(at, static_cast<int>(at % 8));
  const std::size_t begin = blocks_of(whole).front();
  found = tried = 0;
  for (std::size_t at = begin; at < whole.size(); at += 131) try_bit(at, static_cast<int>(at % 8));
  EXPECT_EQ(found, tried);
  EXPECT_GT(tried, 100U);
  EXPECT_ERROR(read_audio(put("b.flac", flipped(whole, kMd5At, 3))), "b.flac", "is damaged: its samples are not");
  EXPECT_ERROR(read_audio(put("b.flac", flipped(whole, begin + 500, 3))), "is damaged: a block",
               "behind 0 of 10000 frames");
  const std::vector<std::size_t> blocks = blocks_of(whole);
  put("b.flac", whole.substr(0, blocks[1]) + whole.substr(blocks[2]));
  EXPECT_ERROR(read_audio(folder / "b.flac"), "is damaged: a block is missing, behind");
  EXPECT_ERROR(read_audio(folder / "b.flac", {.frames = 5000}), "is damaged: a block is missing, behind");
}

TEST_F(DamagedAudio, ADamagedPartOfFlacIsFoundWhereItIsRead) {
  const Tensor want = sound(200000);
  write_audio(folder / "a.flac", want, 22050);
  const std::string whole = bytes("a.flac");
  const fs::path path = put("b.flac", flipped(whole, whole.size() / 2, 3));
  const auto reads = [&](std::int64_t start) {
    const Audio part = read_audio(path, {.start = start, .frames = 3000});
    return part.samples.to_vector<float>() == want.narrow(1, start, 3000).to_vector<float>();
  };
  EXPECT_TRUE(reads(0));
  EXPECT_TRUE(reads(190000));
  int found = 0;
  for (std::int64_t start = 60000; start < 140000; start += 3000) {
    try {
      EXPECT_TRUE(reads(start));
    } catch (const Error&) {
      ++found;
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_TRUE(read_audio(folder / "a.flac", {.start = 199999}).samples.to_vector<float>() ==
              want.narrow(1, 199999, 1).to_vector<float>());
}

TEST_F(DamagedAudio, WhatIsThereOfDamagedFlacIsTaken) {
  const Tensor want = sound();
  write_audio(folder / "a.flac", want, 22050);
  const std::string whole = bytes("a.flac");
  const std::vector<std::size_t> blocks = blocks_of(whole);
  ASSERT_GE(blocks.size(), 3U);
  const std::int64_t block = 4096;
  const auto taken = [&](const std::string& file, bool second_is_there) {
    Tensor expected = want.clone();
    if (!second_is_there) expected.narrow(1, block, block).fill_(0.0);
    const Tensor got = read_audio(put("b.flac", file), {.damaged = true}).samples;
    EXPECT_EQ(got.shape(), expected.shape());
    return got.to_vector<float>() == expected.to_vector<float>();
  };
  EXPECT_TRUE(taken(whole, true));
  EXPECT_TRUE(taken(flipped(whole, blocks[1] + 300, 2), false));
  EXPECT_TRUE(taken(whole.substr(0, blocks[1]) + whole.substr(blocks[2]), false));
  EXPECT_TRUE(taken(flipped(whole, kMd5At, 0), true));
  const std::string cut = whole.substr(0, blocks[2] + 20);
  EXPECT_ERROR(read_audio(put("c.flac", cut)), "is damaged", "8192 of 10000 frames");
  const Tensor there = read_audio(folder / "c.flac", {.damaged = true}).samples;
  EXPECT_EQ(there.to_vector<float>(), want.narrow(1, 0, 2 * block).to_vector<float>());
  EXPECT_EQ(read_audio(folder / "c.flac", {.start = 5000, .frames = 3000, .damaged = true}).samples.to_vector<float>(),
            want.narrow(1, 5000, 3000).to_vector<float>());
  EXPECT_ERROR(read_audio(folder / "c.flac", {.max_samples = 9000, .damaged = true}), "at most max_samples, 9000");
}

TEST_F(DamagedAudio, FlacThatDoesNotTellItsLengthIsRead) {
  const Tensor want = sound(100000);
  write_audio(folder / "a.flac", want, 22050);
  const std::string pipe = streamed(bytes("a.flac"));
  const fs::path path = put("b.flac", pipe);
  EXPECT_EQ(audio_info(path).frames, 100000);
  EXPECT_EQ(read_audio(path).samples.to_vector<float>(), want.to_vector<float>());
  EXPECT_EQ(read_audio(path, {.start = 90001, .frames = 5000}).samples.to_vector<float>(),
            want.narrow(1, 90001, 5000).to_vector<float>());
  EXPECT_ERROR(read_audio(path, {.start = 99999, .frames = 2}), "got 2 frames from 99999 on, of 100000");
  EXPECT_ERROR(read_audio(path, {.max_samples = 199999}), "at most max_samples, 199999");
  EXPECT_ERROR(read_audio(put("c.flac", pipe.substr(0, pipe.size() - 3))), "is damaged: a block",
               "behind 98304 frames");
  EXPECT_ERROR(audio_info(folder / "c.flac"), "audio_info: '", "is damaged: a block");
  EXPECT_ERROR(read_audio(put("c.flac", flipped(pipe, pipe.size() / 2, 1))), "is damaged: a block");
}

TEST_F(DamagedAudio, OtherProgramsTagsAreNoDamageToFlac) {
  const Tensor want = sound();
  write_audio(folder / "a.flac", want, 22050);
  const std::string whole = bytes("a.flac"), before = std::string("ID3\3\0\0\0\0\0\24", 10) + std::string(20, 'x');
  const std::string behind = "TAG" + std::string(125, ' ');
  EXPECT_EQ(read_audio(put("b.flac", before + whole + behind)).samples.to_vector<float>(), want.to_vector<float>());
}

#else

TEST_F(DamagedAudio, WithoutLibFlacALengthThatIsNotToldIsAnError) {
  write_audio(folder / "a.flac", sound(), 22050);
  std::string pipe = bytes("a.flac");
  pipe[21] = static_cast<char>(pipe[21] & 0xf0);
  for (std::size_t i = 22; i < 42; ++i) pipe[i] = 0;
  EXPECT_ERROR(read_audio(put("b.flac", pipe)), "is damaged: its end is missing");
}

#endif

TEST_F(DamagedAudio, APageOfOggThatIsNotWholeIsFound) {
  write_audio(folder / "a.ogg", Tensor::randn({60000}) * 0.2, 8000);
  const std::string whole = bytes("a.ogg");
  std::vector<std::size_t> pages;
  for (std::size_t at = 0; at != std::string::npos; at = whole.find("OggS", at + 1)) pages.push_back(at);
  ASSERT_GE(pages.size(), 6U);
  const std::size_t middle = pages[4];
  for (const std::size_t at : {std::size_t{0}, std::size_t{18}, std::size_t{23}, std::size_t{27}, std::size_t{999}}) {
    EXPECT_ERROR(read_audio(put("b.ogg", flipped(whole, middle + at, 4))), "b.ogg", "is damaged: a page of it is");
    EXPECT_ERROR(audio_info(folder / "b.ogg"), "is damaged: a page of it is");
    const std::int64_t there = read_audio(folder / "b.ogg", {.damaged = true}).samples.size(1);
    EXPECT_GT(there, 20000);
    EXPECT_LE(there, 60000);
  }
  const std::string without = whole.substr(0, middle) + whole.substr(pages[5]);
  EXPECT_ERROR(read_audio(put("b.ogg", without)), "is damaged: a page of it is missing or not whole");
  const std::string cut = whole.substr(0, pages.back());
  EXPECT_ERROR(read_audio(put("b.ogg", cut)), "is damaged: its end is missing");
  EXPECT_GT(read_audio(folder / "b.ogg", {.damaged = true}).samples.size(1), 20000);
  EXPECT_EQ(read_audio(put("b.ogg", whole + "TAG and more")).samples.size(1), 60000);
}

std::string little(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

/// 16 bits, one channel, 8 kHz.
std::string wav_header(const std::string& form, std::uint64_t length, std::uint64_t data,
                       const std::string& before = "") {
  return form + little(length, 4) + "WAVE" + before + "fmt " + little(16, 4) + little(1, 2) + little(1, 2) +
         little(8000, 4) + little(16000, 4) + little(2, 2) + little(16, 2) + "data" + little(data, 4);
}

TEST_F(DamagedAudio, AWavFileThatWasNeverFinishedHasTheFramesThatItHolds) {
  std::string samples;
  std::vector<float> want;
  for (int i = 0; i < 1000; ++i) {
    samples += little(static_cast<std::uint64_t>(i), 2);
    want.push_back(static_cast<float>(i) / 32768.0F);
  }
  const auto read = [&](const std::string& file) {
    const fs::path path = put("a.wav", file);
    const std::vector<float> values = read_audio(path).samples.to_vector<float>();
    EXPECT_EQ(audio_info(path).frames, static_cast<std::int64_t>(values.size()));
    return values;
  };
  const std::string list = "LIST" + little(4, 4) + "INFO";
  EXPECT_EQ(read(wav_header("RIFF", 2036, 2000) + samples), want);
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{36}, std::uint64_t{2036}}) {
    EXPECT_EQ(read(wav_header("RIFF", length, 0) + samples), want) << length;
    EXPECT_EQ(read(wav_header("RIFF", length, 0, list) + samples + "\1"), want) << length;
  }
  EXPECT_EQ(read(wav_header("RIFF", 0xffffffff, 0xffffffff) + samples), want);
  EXPECT_EQ(read_audio(folder / "a.wav", {.start = 990, .frames = 3}).samples.to_vector<float>(),
            (std::vector<float>{want[990], want[991], want[992]}));
  const auto ds64 = [](std::uint64_t data) {
    return "ds64" + little(28, 4) + little(0, 8) + little(data, 8) + little(data / 2, 8) + little(0, 4);
  };
  EXPECT_EQ(read(wav_header("RF64", 0xffffffff, 0xffffffff, ds64(2000)) + samples), want);
  EXPECT_EQ(read(wav_header("RF64", 0xffffffff, 0xffffffff, ds64(0)) + samples), want);

  EXPECT_TRUE(read(wav_header("RIFF", 36, 0)).empty());
  EXPECT_TRUE(read(wav_header("RIFF", 48, 0) + list).empty());  // which states that it has none, and continues
  EXPECT_TRUE(read(wav_header("RIFF", 61, 0) + list + "note" + little(5, 4) + "12345").empty());
}

TEST_F(DamagedAudio, AWavFileThatIsCutInItsHeaderHasNoSamples) {
  const std::string whole = wav_header("RIFF", 46, 10) + "0123456789";
  for (std::size_t end = 0; end < 44; ++end) {
    EXPECT_ERROR(read_audio(put("a.wav", whole.substr(0, end))), "read_audio: '", "a.wav");
  }
  EXPECT_ERROR(read_audio(folder / "a.wav"), "is damaged: it ends before its samples begin");
  EXPECT_EQ(read_audio(put("a.wav", whole.substr(0, 44))).samples.size(1), 0);
  EXPECT_EQ(read_audio(put("a.wav", whole.substr(0, 47))).samples.size(1), 1);
}

TEST_F(DamagedAudio, WhatIsNoNumberIsWrittenAsSilence) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Tensor odd = Tensor::from_vector({0.5F, nan, -nan, infinity, -infinity, 0.25F}, {6});
  for (const auto& [name, bits] : {std::pair{"a.wav", 16}, {"b.wav", 24}, {"c.flac", 16}, {"d.flac", 24}}) {
    write_audio(folder / name, odd, 8000, {.bits = bits});
    const float top = bits == 16 ? 32767.0F / 32768.0F : 8388607.0F / 8388608.0F;
    EXPECT_EQ(read_audio(folder / name).samples.to_vector<float>(), (std::vector<float>{0.5F, 0, 0, top, -1, 0.25F}))
        << name;
  }
  write_audio(folder / "e.wav", odd, 8000, {.bits = 32});
  EXPECT_TRUE(std::isnan(read_audio(folder / "e.wav").samples.to_vector<float>()[1]));
  Tensor padded = Tensor::zeros({8000});
  padded.narrow(0, 4000, 6).copy_(odd);
  write_audio(folder / "f.ogg", padded, 8000);
  for (const float value : read_audio(folder / "f.ogg").samples.to_vector<float>()) {
    ASSERT_LT(std::abs(value), 4.0F);
  }
}

}  // namespace
}  // namespace adjoint::data
