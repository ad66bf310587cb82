// Event files are TFRecord files of Event messages: a record is the length of its data (8 bytes), the length's masked
// CRC-32C (4), the data, and the data's masked CRC-32C (4), all little-endian. The format is that of
// tensorflow/core/lib/io/record_writer.h, the mask that of tensorflow/core/lib/hash/crc32c.h.
#include <adjoint/data/events/event_file.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/crc32c.h>
#include <adjoint/core/base/file.h>
#include <adjoint/data/append_file.h>
#include <adjoint/data/log_record.h>

#include <events.pb.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_map>

#include <fcntl.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

std::uint32_t masked_crc(const std::string& bytes) {
  const std::uint32_t crc = crc32c(bytes.data(), bytes.size());
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

/// The bytes before a record's data.
std::string framed_length(std::uint64_t bytes) {
  const std::string length = little_endian(bytes);
  return length + little_endian(masked_crc(length));
}

std::string record_of(const events::Event& event) {
  std::string data;
  ADJOINT_CHECK(event.SerializeToString(&data), "event_writer: an event must take less than 2 GiB; got {} bytes",
                event.ByteSizeLong());
  return framed_length(data.size()) + data + little_endian(masked_crc(data));
}

std::string bytes_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

void set(events::Summary::Value& value, double scalar) { value.set_simple_value(static_cast<float>(scalar)); }

void set(events::Summary::Value& value, const LogImage& image) {
  auto& out = *value.mutable_image();
  out.set_height(static_cast<std::int32_t>(image.height));
  out.set_width(static_cast<std::int32_t>(image.width));
  out.set_colorspace(static_cast<std::int32_t>(image.channels));
  out.set_encoded_image_string(bytes_of(image.png));
}

void set(events::Summary::Value& value, const LogAudio& audio) {
  auto& out = *value.mutable_audio();
  out.set_sample_rate(static_cast<float>(audio.sample_rate));
  out.set_num_channels(audio.channels);
  out.set_length_frames(audio.frames);
  out.set_encoded_audio_string(bytes_of(audio.wav));
  out.set_content_type("audio/wav");
}

void set(events::Summary::Value& value, const LogHistogram& histogram) {
  auto& out = *value.mutable_histo();
  out.set_min(histogram.min);
  out.set_max(histogram.max);
  out.set_num(histogram.count);
  out.set_sum(histogram.sum);
  out.set_sum_squares(histogram.sum_squares);
  out.mutable_bucket_limit()->Add(histogram.bucket_limits.begin(), histogram.bucket_limits.end());
  out.mutable_bucket()->Add(histogram.buckets.begin(), histogram.buckets.end());
}

// In the form of TensorBoard's text plugin: a tensor of strings.
void set(events::Summary::Value& value, const LogText& text) {
  constexpr int kString = 7;
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  auto& out = *value.mutable_tensor();
  out.set_dtype(kString);
  out.mutable_tensor_shape()->add_dim()->set_size(1);
  out.add_string_val(text.text);
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The folder's event files, sorted by name, TensorBoard's order.
std::vector<std::string> older_files(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names = names_in(folder, error);
  ADJOINT_CHECK(!error, "event_writer: cannot list the folder '{}': {}", folder.string(), error.message());
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(kPrefix); });
  std::sort(names.begin(), names.end());
  return names;
}

/// A name that sorts behind all older ones. A number distinguishes files that one process makes within one second.
std::string file_name(const std::vector<std::string>& older) {
  static std::atomic<int> made{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'o', 's', 't'};
  const int number = made++;
  const auto name = [&] { return fmt::format("{}{:010}.{}.{}.{}", kPrefix, seconds, host.data(), ::getpid(), number); };
  if (!older.empty() && name() <= older.back()) {
    const char* const begin = older.back().data() + kPrefix.size();
    std::int64_t last = 0;
    std::from_chars(begin, older.back().data() + older.back().size(), last);
    seconds = std::max(seconds, std::min(last, std::int64_t{9999999998}) + 1);
  }
  return name();
}

/// The steps of a series.
struct Steps {
  std::int64_t first = 0, last = 0;
};
using Series = std::unordered_map<std::string, Steps>;

/// Adds the series of a file, up to its first damage. Pictures and similar records are not read, because scalars
/// accompany them.
void add_series(const fs::path& path, Series& all) {
  constexpr std::uint64_t kMostBytes = 1 << 16, kBefore = 12, kBehind = 4;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::string bytes;
  const auto read = [&](std::uint64_t from, std::uint64_t count) {
    bytes.resize(count);
    return ::pread(file.get(), bytes.data(), count, static_cast<off_t>(from)) == static_cast<ssize_t>(count);
  };
  for (std::uint64_t at = 0, length = 0; read(at, kBefore); at += kBefore + length + kBehind) {
    std::memcpy(&length, bytes.data(), sizeof(length));
    if (bytes != framed_length(length)) return;
    if (length > kMostBytes) continue;
    events::Event event;
    if (!read(at + kBefore, length) || !event.ParseFromString(bytes)) return;
    const std::int64_t step = event.step();
    if (event.session_log().status() == events::SessionLog::START) {
      std::erase_if(all, [&](const auto& entry) { return entry.second.first >= step; });
      for (auto& [tag, steps] : all) steps.last = std::min(steps.last, step - 1);
    }
    for (const auto& value : event.summary().value()) {
      Steps& steps = all.try_emplace(value.tag(), Steps{step, step}).first->second;
      steps = {std::min(steps.first, step), std::max(steps.last, step)};
    }
  }
}

Series series_of(const fs::path& folder, const std::vector<std::string>& files) {
  Series all;
  for (const std::string& file : files) add_series(folder / file, all);
  return all;
}

/// A series with only one step, such as a run's options, does not go back if that step repeats.
bool goes_back(const Steps& before, std::int64_t step) {
  return step < before.last || (step == before.last && before.first < before.last);
}

class EventWriter final : public LogWriter {
 public:
  EventWriter(const fs::path& folder, const std::vector<std::string>& older)
      : before_(series_of(folder, older)), file_("event_writer", folder / file_name(older), AppendFile::If::kNew) {
    events::Event event;
    event.set_wall_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
    event.set_file_version("brain.Event:2");
    file_.append(record_of(event));
  }

  void write(const LogRecord& record) override {
    events::Event event;
    event.set_wall_time(record.wall_time);
    event.set_step(record.step);
    if (const auto series = before_.find(record.tag); series != before_.end()) {
      if (goes_back(series->second, record.step)) {
        event.mutable_session_log()->set_status(events::SessionLog::START);
        file_.append(record_of(event));
        before_.clear();
      } else {
        before_.erase(series);
      }
    }
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(record.tag);
    std::visit([&](const auto& what) { set(value, what); }, record.value);
    file_.append(record_of(event));
  }

 private:
  Series before_;  // series of older files that have not continued yet, until a session's start is recorded
  AppendFile file_;
};

}  // namespace

std::unique_ptr<LogWriter> event_writer(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  ADJOINT_CHECK(!error, "event_writer: cannot make the folder '{}': {}", folder.string(), error.message());
  return std::make_unique<EventWriter>(folder, older_files(folder));
}

}  // namespace adjoint::data
