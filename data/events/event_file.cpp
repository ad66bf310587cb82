// Event files are TFRecord files of Event messages: a record is the length of its data (8 bytes), the length's masked
// CRC-32C (4), the data, and the data's masked CRC-32C (4), all little-endian. The format is that of
// tensorflow/core/lib/io/record_writer.h, the mask that of tensorflow/core/lib/hash/crc32c.h.
#include <adjoint/data/events/event_file.h>

#include <adjoint/core/check.h>
#include <adjoint/core/crc32c.h>
#include <adjoint/data/append_file.h>

#include <events.pb.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <type_traits>

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

std::string record_of(const events::Event& event) {
  std::string data;
  ADJOINT_CHECK(event.SerializeToString(&data), "event_writer: an event must take less than 2 GiB; got {} bytes",
                event.ByteSizeLong());
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + data + little_endian(masked_crc(data));
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

// As TensorBoard's text plugin finds it: a tensor of strings.
void set(events::Summary::Value& value, const LogText& text) {
  constexpr int kString = 7;
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  auto& out = *value.mutable_tensor();
  out.set_dtype(kString);
  out.mutable_tensor_shape()->add_dim()->set_size(1);
  out.add_string_val(text.text);
}

/// The names of files made by one process in one second differ by a number; TensorBoard takes them in order of name.
fs::path file_name() {
  static std::atomic<int> made{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'o', 's', 't'};
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                     std::chrono::duration_cast<std::chrono::seconds>(now).count(), host.data(), ::getpid(), made++);
}

class EventWriter final : public LogWriter {
 public:
  explicit EventWriter(const fs::path& path) : file_("event_writer", path, AppendFile::If::kNew) {
    events::Event event;
    event.set_wall_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
    event.set_file_version("brain.Event:2");
    file_.append(record_of(event));
  }

  void write(const LogRecord& record) override {
    events::Event event;
    event.set_wall_time(record.wall_time);
    event.set_step(record.step);
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(record.tag);
    std::visit([&](const auto& what) { set(value, what); }, record.value);
    file_.append(record_of(event));
  }

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<LogWriter> event_writer(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  ADJOINT_CHECK(!error, "event_writer: cannot make the folder '{}': {}", folder.string(), error.message());
  return std::make_unique<EventWriter>(folder / file_name());
}

}  // namespace adjoint::data
