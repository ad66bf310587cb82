#include <adjoint/data/audio/audio.h>

#include <adjoint/data/loader.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <thread>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

using AudioFiles = testing::TempFolder;

/// Channel c, frame i: (i + 1000 c) / 2^15, which 16 bits hold exactly.
Tensor steps(std::int64_t channels, std::int64_t frames) {
  std::vector<float> values;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < frames; ++i) values.push_back(static_cast<float>((i + 1000 * c) % 32768) / 32768.0F);
  }
  return Tensor::from_vector(values, {channels, frames});
}

TEST_F(AudioFiles, KeepsSamplesExactly) {
  const Tensor sound = steps(2, 40000);  // more than two blocks
  for (const auto& [name, bits] :
       {std::pair{"a.wav", 16}, {"b.wav", 24}, {"c.WAV", 32}, {"d.flac", 16}, {"e.flac", 24}}) {
    write_audio(folder / name, sound, 22050, {.bits = bits});
    const AudioInfo info = audio_info(folder / name);
    EXPECT_EQ(info.sample_rate, 22050) << name;
    EXPECT_EQ(info.channels, 2) << name;
    EXPECT_EQ(info.frames, 40000) << name;
    const Audio read = read_audio(folder / name);
    EXPECT_EQ(read.sample_rate, 22050);
    EXPECT_EQ(read.samples.to_vector<float>(), sound.to_vector<float>()) << name;
    const Audio part = read_audio(folder / name, {.start = 20001, .frames = 17000});
    EXPECT_EQ(part.samples.to_vector<float>(), sound.narrow(1, 20001, 17000).to_vector<float>()) << name;
  }
}

TEST_F(AudioFiles, VorbisComesNear) {
  std::vector<float> wave;
  for (int i = 0; i < 20000; ++i) wave.push_back(0.5F * std::sin(0.05F * static_cast<float>(i)));
  write_audio(folder / "a.ogg", Tensor::from_vector(wave, {20000}), 22050);
  const Audio read = read_audio(folder / "a.ogg");
  ASSERT_EQ(read.samples.shape(), (Shape{1, 20000}));
  const std::vector<float> got = read.samples.to_vector<float>();
  for (std::size_t i = 1000; i < 19000; ++i) ASSERT_NEAR(got[i], wave[i], 0.05F) << i;
}

TEST_F(AudioFiles, ClampsIntegersAndKeepsFloats) {
  const Tensor loud = Tensor::from_vector({2.0F, -2.0F, 0.5F}, {3});
  write_audio(folder / "a.wav", loud, 8000);
  EXPECT_EQ(read_audio(folder / "a.wav").samples.to_vector<float>(),
            (std::vector<float>{32767.0F / 32768.0F, -1, 0.5F}));
  write_audio(folder / "b.wav", loud, 8000, {.bits = 32});
  EXPECT_EQ(read_audio(folder / "b.wav").samples.to_vector<float>(), loud.to_vector<float>());
}

TEST_F(AudioFiles, IntegersAreTheNearest) {
  for (const int bits : {16, 24}) {
    const float unit = std::ldexp(1.0F, 1 - bits);
    const Tensor values = Tensor::from_vector({0.4F * unit, 0.6F * unit, -0.4F * unit, -0.6F * unit, 1.6F * unit}, {5});
    for (const char* name : {"a.wav", "a.flac"}) {
      write_audio(folder / name, values, 8000, {.bits = bits});
      EXPECT_EQ(read_audio(folder / name).samples.to_vector<float>(), (std::vector<float>{0, unit, 0, -unit, 2 * unit}))
          << bits << " bits, " << name;
    }
  }
}

TEST_F(AudioFiles, NamesWhatCannotBeReadOrWritten) {
  EXPECT_ERROR(read_audio(folder / "none.wav"), "read_audio", "none.wav");
  std::ofstream(folder / "text.wav") << "no sound at all, though long enough to look at";
  EXPECT_ERROR(read_audio(folder / "text.wav"), "read_audio", "text.wav", "must be a WAV, FLAC or OGG");
  EXPECT_ERROR(audio_info(folder), "audio_info", folder.c_str());
  write_audio(folder / "a.flac", steps(1, 20000), 8000);
  EXPECT_ERROR(read_audio(folder / "a.flac", {.max_samples = 19999}), "a.flac", "max_samples, 19999", "20000");
  EXPECT_ERROR(read_audio(folder / "a.flac", {.start = 20001}), "a.flac", "20001");
  EXPECT_ERROR(read_audio(folder / "a.flac", {.start = -1}), "a.flac", "-1");
  EXPECT_ERROR(read_audio(folder / "a.flac", {.start = 19999, .frames = 2}), "a.flac", "got 2 frames from 19999");
  fs::resize_file(folder / "a.flac", fs::file_size(folder / "a.flac") / 2);
  EXPECT_ERROR(read_audio(folder / "a.flac"), "a.flac", "damaged", "of 20000");
  write_audio(folder / "a.ogg", Tensor::randn({60000}) * 0.2, 8000);
  fs::resize_file(folder / "a.ogg", fs::file_size(folder / "a.ogg") / 2);
  EXPECT_ERROR(read_audio(folder / "a.ogg"), "a.ogg", "is damaged: its end is missing");
  write_audio(folder / "a.wav", steps(1, 20000), 8000);
  fs::resize_file(folder / "a.wav", 44 + 2 * 15000);
  EXPECT_EQ(audio_info(folder / "a.wav").frames, 15000);
  EXPECT_EQ(read_audio(folder / "a.wav").samples.shape(), (Shape{1, 15000}));

  EXPECT_ERROR(write_audio(folder / "a.mp3", steps(1, 2), 8000), "write_audio", "a.mp3");
  EXPECT_ERROR(write_audio(folder / "n.wav", {}, 8000), "n.wav", "defined");
  EXPECT_ERROR(write_audio(folder / "n.wav", Tensor::zeros({1, 1, 2}), 8000), "n.wav", "(1, 1, 2)");
  EXPECT_ERROR(write_audio(folder / "n.wav", steps(1, 2), 0), "n.wav", "0 Hz");
  EXPECT_ERROR(write_audio(folder / "n.flac", steps(9, 2), 8000), "n.flac", "9 channels");
  EXPECT_ERROR(write_audio(folder / "n.flac", steps(1, 2), 8000, {.bits = 32}), "n.flac", "32 bits");
  EXPECT_FALSE(fs::exists(folder / "n.wav"));
}

// libsndfile skips data that is no page, and takes the rest for the whole file if the skipped data was the first sound
// or the end.
TEST_F(AudioFiles, OggFilesThatLostSomethingAreDamaged) {
  write_audio(folder / "a.ogg", Tensor::randn({60000}) * 0.2, 8000);
  std::ifstream file(folder / "a.ogg", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::size_t sound = whole.find("OggS", whole.find("OggS", 1) + 1), last = whole.rfind("OggS");
  ASSERT_LT(sound, last);
  const auto refuses = [&](const std::string& bytes, const char* rule) {
    std::ofstream(folder / "b.ogg", std::ios::binary) << bytes;
    EXPECT_ERROR(read_audio(folder / "b.ogg"), "read_audio: '", "b.ogg' ", rule);
  };
  refuses(whole.substr(0, last), "is damaged: its end is missing");
  refuses(whole.substr(0, sound), "is damaged: its end is missing");
  for (const std::size_t at : {std::size_t{0}, std::size_t{22}, std::size_t{26}, std::size_t{27}, std::size_t{2000}}) {
    std::string damaged = whole;
    damaged[sound + at] = static_cast<char>(damaged[sound + at] ^ 16);
    refuses(damaged, "is damaged: its beginning is not whole");
  }
  for (std::size_t at = sound; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    refuses(damaged, "is damaged: ");
  }
}

// A broken file must not close a descriptor that another thread has opened meanwhile.
TEST_F(AudioFiles, ABrokenFileHarmsNoOther) {
  const Tensor sound = steps(1, 20000);
  write_audio(folder / "good.flac", sound, 8000);
  std::ofstream(folder / "text.wav") << "no sound at all, though long enough to look at";
  constexpr int kReads = 200;
  std::vector<std::string> wrong(4);  // by thread; the even ones read broken files
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < kReads; ++n) {
        try {
          const bool same =
              read_audio(folder / (i % 2 == 0 ? "text.wav" : "good.flac")).samples.numel() == sound.numel();
          if (i % 2 == 0 || !same) wrong[i] = "reads something else";
        } catch (const Error& error) {
          const std::string text = error.what();
          if (i % 2 == 1 || text.find("must be a WAV, FLAC or OGG") == std::string::npos) wrong[i] = text;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

/// Zeros between the samples, a convolution, and every down-th result.
std::vector<double> slow_resample(const std::vector<double>& x, int up, int down) {
  const int rate = std::max(up, down), half = 10 * rate;
  const auto bessel = [](double z) {  // I0 by its series
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 60; ++k) sum += term *= z * z / 4.0 / k / k;
    return sum;
  };
  std::vector<double> filter;
  double total = 0.0;
  for (int n = 0; n <= 2 * half; ++n) {
    const double t = static_cast<double>(n - half) / rate, w = 2.0 * n / (2.0 * half) - 1.0;
    const double sinc = n == half ? 1.0 : std::sin(std::numbers::pi * t) / (std::numbers::pi * t);
    filter.push_back(sinc * bessel(5.0 * std::sqrt(1.0 - w * w)));
    total += filter.back();
  }
  std::vector<double> stuffed(x.size() * static_cast<std::size_t>(up)), result;
  for (std::size_t i = 0; i < x.size(); ++i) stuffed[i * static_cast<std::size_t>(up)] = x[i];
  for (std::size_t m = 0; m < stuffed.size(); m += static_cast<std::size_t>(down)) {
    double sum = 0.0;
    for (std::size_t k = 0; k < stuffed.size(); ++k) {
      const long tap = static_cast<long>(m) - static_cast<long>(k) + half;
      if (tap >= 0 && tap <= 2 * half) sum += stuffed[k] * filter[static_cast<std::size_t>(tap)];
    }
    result.push_back(sum * up / total);
  }
  return result;
}

TEST(Resample, IsStuffingFilteringAndDropping) {
  for (const auto& [up, down] : {std::pair{2, 1}, {1, 3}, {3, 2}, {147, 160}, {7, 5}}) {
    std::vector<double> x;
    for (int i = 0; i < 97; ++i) x.push_back(std::sin(0.3 * i) + 0.01 * (i * 31 % 17));
    const Tensor got = resample(Tensor::from_vector(x, {1, 97}, {.dtype = kFloat64}), 100 * down, 100 * up);
    const std::vector<double> want = slow_resample(x, up, down), values = got.to_vector<double>();
    ASSERT_EQ(values.size(), want.size()) << up << "/" << down;
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(values[i], want[i], 1e-12) << up << "/" << down << " " << i;
  }
}

TEST(Resample, KeepsATone) {
  std::vector<float> wave;
  for (int i = 0; i < 4410; ++i)
    wave.push_back(static_cast<float>(std::sin(2.0 * std::numbers::pi * 1000.0 * i / 44100.0)));
  const std::vector<float> got = resample(Tensor::from_vector(wave, {4410}), 44100, 16000).to_vector<float>();
  ASSERT_EQ(got.size(), 1600U);
  for (int i = 100; i < 1500; ++i) {
    const double want = std::sin(2.0 * std::numbers::pi * 1000.0 * i / 16000.0);
    ASSERT_NEAR(got[static_cast<std::size_t>(i)], want, 2e-3) << i;
  }
}

TEST(Resample, RefusesRatesOutOfRange) {
  EXPECT_ERROR(resample(Tensor::zeros({4}), 0, 100), "resample: rates", "got 0 and 100");
  EXPECT_ERROR(resample(Tensor::zeros({4}), 100, 1 << 21), "resample: rates", "2097152");
  EXPECT_ERROR(resample({}, 1, 2), "resample: samples must be defined");
  EXPECT_ERROR(resample(Tensor::zeros({4}, {.dtype = kInt32}), 1, 2), "resample: samples", "int32");
  EXPECT_EQ(resample(Tensor::zeros({2, 0}), 1, 2).shape(), (Shape{2, 0}));
}

TEST_F(AudioFiles, AFolderGivesPiecesWhateverTheWorkers) {
  fs::create_directory(folder / "in");
  write_audio(folder / "b.wav", steps(1, 9000), 8000);
  write_audio(folder / "in" / "a.flac", steps(1, 100), 16000);
  std::ofstream(folder / "notes.txt") << "x";
  const AudioFolder whole(folder);
  ASSERT_EQ(whole.size(), 2);
  Generator generator(1);
  EXPECT_EQ(whole.get(0, generator).input.shape(), (Shape{1, 9000}));

  const AudioFolder pieces(folder, {.frames = 500, .sample_rate = 8000});
  std::vector<float> first;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(pieces, {.batch_size = 2, .shuffle = true, .workers = workers, .seed = 5});
    const auto batch = loader.next();
    ASSERT_EQ(batch->input.shape(), (Shape{2, 1, 500}));
    if (workers == 0) first = batch->input.to_vector<float>();
    EXPECT_EQ(batch->input.to_vector<float>(), first) << workers;
  }
  const std::vector<float> shorter = pieces.get(1, generator).input.to_vector<float>();
  EXPECT_NE(shorter[49], 0.0F);
  EXPECT_EQ(shorter[50], 0.0F);  // 100 frames at 16 kHz are 50 at 8
  EXPECT_ERROR(pieces.get(2, generator), "AudioFolder: index", "got 2");
  EXPECT_ERROR(AudioFolder(folder / "none"), "AudioFolder", "none");
  EXPECT_ERROR(AudioFolder(folder, {.frames = -1}), "AudioFolder: frames", "-1");
  fs::remove(folder / "b.wav");
  fs::remove(folder / "in" / "a.flac");
  EXPECT_ERROR(AudioFolder(folder), "AudioFolder", "at least one");
}

}  // namespace
}  // namespace adjoint::data
