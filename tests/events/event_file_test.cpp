#include <adjoint/data/events/event_file.h>

#include <adjoint/core/base/file.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/data/image.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/temp_folder.h>

#include <events.pb.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

class EventFile : public testing::TempFolder {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
};

// CRC-32C by long division, a bit at a time.
std::uint32_t slow_masked_crc(const std::uint8_t* data, std::size_t count) {
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 0; i < count; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
  }
  crc ^= 0xffffffff;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <class T>
T at(const std::vector<std::uint8_t>& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::vector<events::Event> read_events(const fs::path& path) {
  const std::vector<std::uint8_t> bytes = read_file("test", path);
  std::vector<events::Event> all;
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const auto length = static_cast<std::size_t>(at<std::uint64_t>(bytes, offset));
    EXPECT_EQ(at<std::uint32_t>(bytes, offset + 8), slow_masked_crc(bytes.data() + offset, 8));
    EXPECT_EQ(at<std::uint32_t>(bytes, offset + 12 + length), slow_masked_crc(bytes.data() + offset + 12, length));
    events::Event event;
    EXPECT_TRUE(event.ParseFromArray(bytes.data() + offset + 12, static_cast<int>(length)));
    all.push_back(event);
    offset += 16 + length;
  }
  EXPECT_EQ(offset, bytes.size());
  return all;
}

Tensor picture() { return Tensor::from_vector({0, 64, 128, 255, 1, 2}, {1, 2, 3}, {.dtype = kUInt8}); }

void write_one_of_each(Log& log) {
  log.add_scalar("loss/train", 0.25, 3);
  log.add_image("picture", picture(), 4);
  log.add_audio("sound", Tensor::from_vector({0.0F, 1.0F, -1.0F, 2.0F}, {2, 2}), 5, 22050);
  log.add_histogram("weights", Tensor::from_vector({-1.0F, 0.0F, 0.0F, 2.0F}, {2, 2}), 6);
  log.add_text("note", "**bold**", 7);
}

TEST_F(EventFile, HoldsEveryKindOfRecord) {
  // The check value of CRC-32C ("123456789" gives 0xe3069283), masked: the oracle's own test.
  const std::string digits = "123456789";
  const std::uint32_t check = 0xe3069283U;
  ASSERT_EQ(slow_masked_crc(reinterpret_cast<const std::uint8_t*>(digits.data()), 9),
            (check >> 15 | check << 17) + 0xa282ead8U);

  Log log;
  log.add_writer(event_writer(folder));
  write_one_of_each(log);
  ASSERT_EQ(files().size(), 1U);
  const std::vector<events::Event> all = read_events(files()[0]);  // while the log lives: nothing is held back
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].file_version(), "brain.Event:2");
  for (int i = 1; i < 6; ++i) {
    EXPECT_EQ(all[i].step(), i + 2);
    EXPECT_GT(all[i].wall_time(), 1.7e9);
    ASSERT_EQ(all[i].summary().value_size(), 1);
  }
  const auto value = [&](int i) -> const events::Summary::Value& {
    return all[static_cast<std::size_t>(i)].summary().value(0);
  };
  EXPECT_EQ(value(1).tag(), "loss/train");
  EXPECT_EQ(value(1).simple_value(), 0.25F);

  const auto& image = value(2).image();
  EXPECT_EQ(image.height(), 2);
  EXPECT_EQ(image.width(), 3);
  EXPECT_EQ(image.colorspace(), 1);
  const std::string& png = image.encoded_image_string();
  const Tensor decoded = decode_image({reinterpret_cast<const std::uint8_t*>(png.data()), png.size()});
  EXPECT_EQ(decoded.to_vector<int>(), picture().to_vector<int>());

  const auto& audio = value(3).audio();
  EXPECT_EQ(audio.sample_rate(), 22050.0F);
  EXPECT_EQ(audio.num_channels(), 2);
  EXPECT_EQ(audio.length_frames(), 2);
  EXPECT_EQ(audio.content_type(), "audio/wav");
  const std::string& wav = audio.encoded_audio_string();
  ASSERT_EQ(wav.size(), 44U + 8U);
  std::int16_t samples[4];
  std::memcpy(samples, wav.data() + 44, sizeof(samples));
  EXPECT_EQ(std::vector<int>(samples, samples + 4), (std::vector<int>{0, -32767, 32767, 32767}));

  const auto& histogram = value(4).histo();
  EXPECT_EQ(histogram.num(), 4.0);
  EXPECT_EQ(histogram.min(), -1.0);
  EXPECT_EQ(histogram.max(), 2.0);
  EXPECT_EQ(histogram.sum(), 1.0);
  EXPECT_EQ(histogram.sum_squares(), 5.0);
  ASSERT_EQ(histogram.bucket_size(), histogram.bucket_limit_size());
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    const double low = i > 0 ? histogram.bucket_limit(i - 1) : -1e300, high = histogram.bucket_limit(i);
    const double inside = (low < -1.0 && -1.0 <= high) + 2.0 * (low < 0.0 && 0.0 <= high) + (low < 2.0 && 2.0 <= high);
    EXPECT_EQ(histogram.bucket(i), inside) << low << " to " << high;
  }

  EXPECT_EQ(value(5).metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(value(5).tensor().dtype(), 7);
  EXPECT_EQ(value(5).tensor().tensor_shape().dim(0).size(), 1);
  EXPECT_EQ(value(5).tensor().string_val(0), "**bold**");
}

TEST_F(EventFile, AResumedRunGetsANewFile) {
  for (int run = 0; run < 2; ++run) {
    Log log;
    log.add_writer(event_writer(folder));
    log.add_scalar("loss", run, run);
  }
  ASSERT_EQ(files().size(), 2U);
  for (std::size_t run = 0; run < 2; ++run) {
    const auto all = read_events(files()[run]);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[1].step(), static_cast<std::int64_t>(run));
  }
}

TEST_F(EventFile, ASeriesThatGoesBackTellsOfASessionsStart) {
  const auto run = [&](const std::vector<std::pair<std::string, std::int64_t>>& scalars) {
    Log log;
    log.add_writer(event_writer(folder));
    for (const auto& [tag, step] : scalars) log.add_scalar(tag, 1.0, step);
    std::vector<std::string> all;
    for (const events::Event& event : read_events(files().back())) {
      const bool starts = event.session_log().status() == events::SessionLog::START;
      if (event.file_version().empty())
        all.push_back((starts ? "start" : event.summary().value(0).tag()) + std::to_string(event.step()));
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  run({{"options", 0}, {"loss", 1}, {"loss", 2}, {"val", 2}, {"loss", 3}, {"loss", 4}});
  EXPECT_EQ(run({{"options", 0}, {"loss", 3}, {"val", 1}}), (Texts{"options0", "start3", "loss3", "val1"}));
  EXPECT_EQ(run({{"options", 0}, {"loss", 4}, {"loss", 5}}), (Texts{"options0", "loss4", "loss5"}));  // 4 was dropped
  EXPECT_EQ(run({{"loss", 5}}), (Texts{"start5", "loss5"}));
  std::ofstream(files().back(), std::ios::app) << "cut short";
  std::ofstream(folder / "events.out.tfevents.9000000000.other") << "no event file";
  EXPECT_EQ(run({{"loss", 6}}), (Texts{"loss6"}));
  EXPECT_GT(files().back().filename(), "events.out.tfevents.9000000000.other");
}

TEST_F(EventFile, NamesAFolderThatCannotBeWrittenTo) {
  std::ofstream(folder / "file") << "x";
  EXPECT_ERROR(event_writer(folder / "file"), "event_writer", "file");
}

TEST_F(EventFile, TensorBoardReadsIt) {
  {
    Log log;
    log.add_writer(event_writer(folder));
    write_one_of_each(log);
  }
  Log log;
  log.add_writer(event_writer(folder));
  log.add_scalar("loss/train", 0.125, 8);
  Log resumed;
  resumed.add_writer(event_writer(folder));
  resumed.add_scalar("loss/train", 0.5, 8);

  std::string output;
  std::FILE* pipe = ::popen((std::string(ADJOINT_READ_EVENTS) + " '" + folder.string() + "' 2>/dev/null").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127) GTEST_SKIP() << "Python has no TensorBoard here";
  ASSERT_EQ(code, 0);
  const auto found = nlohmann::json::parse(output);
  EXPECT_EQ(found["scalars"].dump(), R"({"loss/train":[[3,0.25],[8,0.5]]})");
  EXPECT_EQ(found["images"].dump(), R"({"picture":[[4,3,2]]})");
  EXPECT_EQ(found["audio"].dump(), R"({"sound":[[5,22050.0,2]]})");
  EXPECT_EQ(found["histograms"]["weights"][0][1], 4.0);
  EXPECT_EQ(found["texts"].dump(), R"({"note":[[7,"**bold**"]]})");
}

}  // namespace
}  // namespace adjoint::data
