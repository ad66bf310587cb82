// Makes records from a program's values, and the CSV file.
#include <adjoint/data/log.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/data/append_file.h>
#include <adjoint/data/image.h>
#include <adjoint/data/log_record.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "wall_time,step,tag,value\n";

/// RFC 3629: rejects truncated and overlong sequences, surrogates, and values above U+10FFFF.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[i + k]); };
    const unsigned char first = byte(0);
    const std::size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || more >= text.size() - i) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(k) & 0xc0) != 0x80) return false;
    }
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
        (first == 0xf4 && byte(1) > 0x8f))
      return false;
    i += more + 1;
  }
  return true;
}

/// Quotes as in RFC 4180.
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

/// The parts of a row written by CsvWriter; step is below 0 for any other text.
struct CsvRow {
  std::int64_t step = -1;
  std::string_view tag;  // as in the file, with quotes if any
};

CsvRow parse_row(std::string_view line) {
  CsvRow row;
  const std::size_t time_end = line.find(','), value = line.rfind(',');
  if (time_end == value) return row;  // fewer than two commas
  const char* const begin = line.data() + time_end + 1;
  const auto [end, error] = std::from_chars(begin, line.data() + value, row.step);
  if (error != std::errc() || *end != ',' || end == line.data() + value) return {};
  row.tag = {end + 1, line.data() + value};
  return row;
}

template <class F>
void for_each_line(std::string_view text, F f) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    f(text.substr(at, end - at));
    at = end;
  }
}

class CsvWriter final : public LogWriter {
 public:
  explicit CsvWriter(const fs::path& path) : file_("csv_writer", path, AppendFile::If::kAny), path_(path) {
    const std::vector<std::uint8_t> bytes = read_file("csv_writer", path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string_view begins = text.substr(0, kHeader.size());
    ADJOINT_CHECK(begins == kHeader.substr(0, begins.size()),
                  "csv_writer: '{}' must begin with the row wall_time,step,tag,value; got '{}'", path.string(),
                  begins.substr(0, begins.find('\n')));
    if (begins.size() < kHeader.size()) {
      file_.truncate(0);
      file_.append(kHeader);
    } else {
      if (text.back() != '\n') file_.truncate(text.rfind('\n') + 1);
      for_each_line(text.substr(0, file_.size()), [&](std::string_view line) {
        const CsvRow row = parse_row(line);
        if (row.step < 0) return;
        const auto [series, is_new] = before_.try_emplace(std::string(row.tag), row.step);
        if (!is_new) series->second = std::max(series->second, row.step);
      });
    }
    before_bytes_ = file_.size();
  }

  void write(const LogRecord& record) override {
    const double* value = std::get_if<double>(&record.value);
    if (value == nullptr) return;
    const std::string tag = quoted(record.tag);
    if (const auto series = before_.find(tag); series != before_.end()) {
      if (series->second >= record.step) take_off(tag, record.step);
      before_.erase(series);
    }
    file_.append(fmt::format("{:.6f},{},{},{}\n", record.wall_time, record.step, tag, *value));
  }

 private:
  /// Removes the rows of the series from this step on that were there before.
  void take_off(std::string_view tag, std::int64_t step) {
    const std::vector<std::uint8_t> bytes = read_file("csv_writer", path_);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t before = std::min(before_bytes_, text.size());
    std::string kept;
    for_each_line(text.substr(0, before), [&](std::string_view line) {
      const CsvRow row = parse_row(line);
      if (row.step < step || row.tag != tag) kept += line;
    });
    const std::size_t kept_before = kept.size();
    kept += text.substr(before);
    file_.replace(kept);
    before_bytes_ = kept_before;
  }

  AppendFile file_;
  const fs::path path_;
  std::unordered_map<std::string, std::int64_t>
      before_;                    // the last steps of existing series that have not continued yet
  std::size_t before_bytes_ = 0;  // the file's size at opening
};

void append_little_endian(std::vector<std::uint8_t>& bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

void append_text(std::vector<std::uint8_t>& bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

// RIFF WAVE with one 'fmt ' chunk of plain PCM: Multimedia Programming Interface and Data Specifications 1.0, IBM and
// Microsoft, 1991.
LogAudio wav_of(const Tensor& audio, std::int64_t sample_rate) {
  ADJOINT_CHECK(audio.defined(), "Log: audio must be defined");
  ADJOINT_CHECK(audio.dim() == 1 || audio.dim() == 2, "Log: audio must be (frames) or (channels, frames); got {}",
                audio.shape());
  ADJOINT_CHECK(is_floating_point(audio.dtype()), "Log: audio must be floating point; got {}", audio.dtype());
  const std::int64_t channels = audio.dim() == 1 ? 1 : audio.size(0), frames = audio.size(-1);
  ADJOINT_CHECK(channels >= 1 && channels <= 32767, "Log: audio must have 1 to 32767 channels; got {}", channels);
  constexpr std::int64_t kTop = 0xffffffff, kBeforeSamples = 36;  // bytes before them that the file's length counts
  ADJOINT_CHECK(sample_rate >= 1 && sample_rate <= kTop / (2 * channels),
                "Log: sample_rate must be from 1 to {} for {} channels; got {}", kTop / (2 * channels), channels,
                sample_rate);
  ADJOINT_CHECK(frames <= (kTop - kBeforeSamples) / (2 * channels),
                "Log: audio must fit the 4 GiB of a WAV file; got {}", audio.shape());
  const std::vector<float> values = audio.detach().to_vector<float>();
  LogAudio result{static_cast<double>(sample_rate), channels, frames, {}};
  const auto frame_bytes = static_cast<std::uint32_t>(2 * channels), rate = static_cast<std::uint32_t>(sample_rate);
  const auto data_bytes = static_cast<std::uint32_t>(frames * 2 * channels);
  auto& wav = result.wav;
  wav.reserve(data_bytes + 44U);
  append_text(wav, "RIFF");
  append_little_endian(wav, data_bytes + static_cast<std::uint32_t>(kBeforeSamples), 4);
  append_text(wav, "WAVEfmt ");
  append_little_endian(wav, 16, 4);
  append_little_endian(wav, 1, 2);  // PCM
  append_little_endian(wav, static_cast<std::uint32_t>(channels), 2);
  append_little_endian(wav, rate, 4);
  append_little_endian(wav, rate * frame_bytes, 4);
  append_little_endian(wav, frame_bytes, 2);
  append_little_endian(wav, 16, 2);
  append_text(wav, "data");
  append_little_endian(wav, data_bytes, 4);
  for (std::int64_t i = 0; i < frames; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = values[static_cast<std::size_t>(c * frames + i)];
      const float sample = std::isnan(value) ? 0.0F : std::round(std::clamp(value, -1.0F, 1.0F) * 32767.0F);
      append_little_endian(wav, static_cast<std::uint16_t>(static_cast<std::int16_t>(sample)), 2);
    }
  }
  return result;
}

// The limits of tensorflow/core/lib/histogram/histogram.cc: 1e-12 * 1.1^i below 1e20, their negatives, 0, and a last
// one above everything.
const std::vector<double>& histogram_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all;
    for (auto it = positive.rbegin(); it != positive.rend(); ++it) all.push_back(-*it);
    all.push_back(0.0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

LogHistogram histogram_of(const Tensor& tensor) {
  ADJOINT_CHECK(tensor.defined(), "Log: values must be defined");
  const std::vector<double>& limits = histogram_limits();
  std::vector<double> counts(limits.size());
  LogHistogram result{.min = std::numeric_limits<double>::infinity(), .max = -std::numeric_limits<double>::infinity()};
  for (const double value : tensor.detach().to_vector<double>()) {
    if (!std::isfinite(value)) continue;
    ++counts[static_cast<std::size_t>(std::lower_bound(limits.begin(), limits.end(), value) - limits.begin())];
    result.min = std::min(result.min, value);
    result.max = std::max(result.max, value);
    result.count += 1.0;
    result.sum += value;
    result.sum_squares += value * value;
  }
  if (result.count == 0.0) result.min = result.max = 0.0;
  // Buckets from the first full one to the last, with an empty one before them that marks the start of the first.
  std::size_t first = 0, end = counts.size();
  while (first < end && counts[first] == 0.0) ++first;
  while (end > first && counts[end - 1] == 0.0) --end;
  if (first == end) return {.bucket_limits = {0.0}, .buckets = {0.0}};
  if (first > 0) --first;
  result.bucket_limits.assign(limits.begin() + static_cast<std::ptrdiff_t>(first),
                              limits.begin() + static_cast<std::ptrdiff_t>(end));
  result.buckets.assign(counts.begin() + static_cast<std::ptrdiff_t>(first),
                        counts.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

}  // namespace

LogWriter::~LogWriter() = default;

std::unique_ptr<LogWriter> csv_writer(const fs::path& path) { return std::make_unique<CsvWriter>(path); }

struct Log::Writers {
  std::mutex mutex;
  std::vector<std::unique_ptr<LogWriter>> all;
};

Log::Log() : writers_(new Writers) {}

Log::~Log() = default;

Log::Log(const fs::path& folder) : Log() {
  std::error_code error;
  fs::create_directories(folder, error);
  ADJOINT_CHECK(!error, "Log: cannot make the folder '{}': {}", folder.string(), error.message());
  add_writer(csv_writer(folder / "scalars.csv"));
}

void Log::add_writer(std::unique_ptr<LogWriter> writer) {
  ADJOINT_CHECK(writer != nullptr, "Log: a writer must not be null");
  const std::lock_guard lock(writers_->mutex);
  writers_->all.push_back(std::move(writer));
}

void Log::write(LogRecord record) {
  const std::string& tag = record.tag;
  ADJOINT_CHECK(!tag.empty(), "Log: a tag must not be empty");
  ADJOINT_CHECK(std::none_of(tag.begin(), tag.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
                "Log: a tag must hold no control characters; got '{}'", tag);
  ADJOINT_CHECK(is_utf8(tag), "Log: a tag must be UTF-8; got '{}'", tag);
  ADJOINT_CHECK(record.step >= 0, "Log: step must be at least 0; got {} for '{}'", record.step, tag);
  const std::lock_guard lock(writers_->mutex);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  record.wall_time = std::chrono::duration<double>(now).count();
  for (const auto& writer : writers_->all) writer->write(record);
}

void Log::add_scalar(const std::string& tag, double value, std::int64_t step) {
  write({.step = step, .tag = tag, .value = value});
}

void Log::add_image(const std::string& tag, const Tensor& image, std::int64_t step) {
  ADJOINT_CHECK(image.defined(), "Log: image must be defined");
  const Tensor picture = image.detach().to(kCPU);
  std::vector<std::uint8_t> png;
  {
    const OpScope scope("Log::add_image");
    png = encode_png(picture, {.compression = 1});
  }
  write(
      {.step = step, .tag = tag, .value = LogImage{picture.size(1), picture.size(2), picture.size(0), std::move(png)}});
}

void Log::add_audio(const std::string& tag, const Tensor& audio, std::int64_t step, std::int64_t sample_rate) {
  write({.step = step, .tag = tag, .value = wav_of(audio, sample_rate)});
}

void Log::add_histogram(const std::string& tag, const Tensor& values, std::int64_t step) {
  write({.step = step, .tag = tag, .value = histogram_of(values)});
}

void Log::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  ADJOINT_CHECK(is_utf8(text), "Log: text must be UTF-8; got {} bytes that are not for '{}'", text.size(), tag);
  write({.step = step, .tag = tag, .value = LogText{text}});
}

}  // namespace adjoint::data
