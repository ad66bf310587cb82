// Sound files through libsndfile, and folders of them.
#include <adjoint/data/audio/audio.h>

#include <adjoint/core/check.h>
#include <adjoint/core/file.h>

#include <sndfile.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(SNDFILE* file) const { ::sf_close(file); }
};
using Sound = std::unique_ptr<SNDFILE, Close>;

constexpr std::int64_t kBlockFrames = 1 << 14;
constexpr std::int64_t kMaxChannels = 1024;

constexpr const char* kNoEnd = "its end is missing";

/// The bytes of a file from a place on, fewer where it ends.
std::string bytes_at(int file, std::uint64_t from, std::uint64_t count) {
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(file, bytes.data(), count, static_cast<off_t>(from));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

/// That of an OGG page, whose own four bytes count as 0.
std::uint32_t page_checksum(const std::string& page) {
  constexpr std::uint32_t kPolynomial = 0x04c11db7;
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < page.size(); ++i) {
    crc ^= (i >= 22 && i < 26 ? 0U : static_cast<unsigned char>(page[i])) << 24;
    for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ (crc >> 31 != 0 ? kPolynomial : 0);
  }
  return crc;
}

/// How an OGG file is damaged where libsndfile takes it for a whole, shorter one: by a page up to the first with sound,
/// or at its end; null for neither. A page (RFC 3533) is "OggS", a version, flags, of which 4 marks the last page, the
/// frames so far (8 bytes at 6), ..., a checksum (4 bytes at 22), how many lengths follow (1 byte at 26), the lengths,
/// and as many bytes as they come to.
const char* damage_of_ogg(int file, std::uint64_t size) {
  constexpr std::string_view kPage = "OggS";
  constexpr std::uint64_t kHeader = 27, kMostLengths = 255;
  if (bytes_at(file, 0, kPage.size()) != kPage) return nullptr;
  std::int64_t frames = 0;
  for (std::uint64_t at = 0; at < size && frames <= 0;) {
    std::string page = bytes_at(file, at, kHeader + kMostLengths);
    page.resize(kHeader + kMostLengths);
    const auto byte = [&](std::uint64_t i) { return static_cast<unsigned char>(page[i]); };
    const std::uint64_t lengths = byte(kHeader - 1);
    std::uint64_t bytes = kHeader + lengths;
    for (std::uint64_t i = 0; i < lengths; ++i) bytes += byte(kHeader + i);
    page = bytes_at(file, at, bytes);
    std::uint32_t checksum = 0;
    if (page.size() == bytes) std::memcpy(&checksum, page.data() + 22, sizeof(checksum));
    if (page.size() < bytes || !page.starts_with(kPage) || page_checksum(page) != checksum)
      return "its beginning is not whole";
    std::memcpy(&frames, page.data() + 6, sizeof(frames));
    at += bytes;
  }
  const std::uint64_t tail = std::min(size, kHeader + kMostLengths + kMostLengths * kMostLengths);
  const std::string end = bytes_at(file, size - tail, tail);
  const std::size_t last = end.rfind(kPage), flags = last + kPage.size() + 1;
  const bool ends = last != std::string::npos && flags < end.size() && (end[flags] & 4) != 0;
  return ends ? nullptr : kNoEnd;
}

/// An open file; sf_read goes through a descriptor of a regular file.
class Reader {
 public:
  Reader(const char* op, const fs::path& path) : op_(op), path_(path.string()) {
    const std::uint64_t size = InputFile(op, path).size();  // its errors: what cannot be opened or is no regular file
    Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    ADJOINT_CHECK(file.is_open(), "{}: cannot open '{}'", op, path_);
    const char* const damage = damage_of_ogg(file.get(), size);
    SF_INFO info{};
    {
      // The text of a failure lies in a variable of libsndfile's that all threads share.
      static std::mutex opening;
      const std::lock_guard lock(opening);
      // libsndfile is given the descriptor: of a file that it refuses it closes it even where it is told not to.
      sound_.reset(::sf_open_fd(file.release(), SFM_READ, &info, SF_TRUE));
      ADJOINT_CHECK(sound_ != nullptr, "{}: '{}' must be a WAV, FLAC or OGG file: {}", op, path_,
                    ::sf_strerror(nullptr));
    }
    const int format = info.format & SF_FORMAT_TYPEMASK;
    ADJOINT_CHECK(format == SF_FORMAT_WAV || format == SF_FORMAT_WAVEX || format == SF_FORMAT_RF64 ||
                      format == SF_FORMAT_FLAC || format == SF_FORMAT_OGG,
                  "{}: '{}' must be a WAV, FLAC or OGG file", op, path_);
    ADJOINT_CHECK(info.samplerate >= 1 && info.channels >= 1 && info.channels <= kMaxChannels && info.frames >= 0,
                  "{}: '{}' is damaged: it claims {} channels, {} frames at {} Hz", op, path_, info.channels,
                  info.frames, info.samplerate);
    ADJOINT_CHECK(damage == nullptr && info.frames < SF_COUNT_MAX, "{}: '{}' is damaged: {}", op, path_,
                  damage != nullptr ? damage : kNoEnd);
    info_ = {info.samplerate, info.channels, info.frames};
  }

  const AudioInfo& info() const { return info_; }

  Tensor read(const ReadAudioOptions& options) {
    const std::int64_t left = info_.frames - options.start;
    const std::int64_t frames = options.frames == -1 ? left : options.frames;
    ADJOINT_CHECK(options.start >= 0 && left >= 0 && frames >= 0 && frames <= left,
                  "{}: '{}' must hold the part that is asked for; got {} frames from {} on, of {}", op_, path_,
                  options.frames, options.start, info_.frames);
    ADJOINT_CHECK(frames <= options.max_samples / info_.channels,
                  "{}: '{}' must have at most max_samples, {}; got {} frames of {} channels", op_, path_,
                  options.max_samples, frames, info_.channels);
    ADJOINT_CHECK(options.start == 0 || ::sf_seek(sound_.get(), options.start, SEEK_SET) == options.start,
                  "{}: '{}' is damaged: frame {} cannot be reached", op_, path_, options.start);
    Tensor samples = Tensor::empty({info_.channels, frames});
    auto* out = samples.mutable_data<float>();
    std::vector<float> block(static_cast<std::size_t>(std::min(frames, kBlockFrames) * info_.channels));
    for (std::int64_t done = 0; done < frames;) {
      const std::int64_t count = ::sf_readf_float(sound_.get(), block.data(), std::min(frames - done, kBlockFrames));
      ADJOINT_CHECK(count > 0, "{}: '{}' is damaged: it ends after {} of {} frames", op_, path_, options.start + done,
                    info_.frames);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < info_.channels; ++c)
          out[c * frames + done + i] = block[static_cast<std::size_t>(i * info_.channels + c)];
      }
      done += count;
    }
    return samples;
  }

 private:
  const char* op_;
  std::string path_;
  Sound sound_;
  AudioInfo info_;
};

/// A file in memory that libsndfile writes.
struct Memory {
  std::vector<char> bytes;
  std::size_t place = 0;

  static SF_VIRTUAL_IO calls() {
    return {[](void* m) { return static_cast<sf_count_t>(static_cast<Memory*>(m)->bytes.size()); },
            [](sf_count_t offset, int whence, void* m) {
              auto& memory = *static_cast<Memory*>(m);
              const auto base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? memory.place : memory.bytes.size();
              memory.place = static_cast<std::size_t>(static_cast<sf_count_t>(base) + offset);
              return static_cast<sf_count_t>(memory.place);
            },
            [](void* data, sf_count_t count, void* m) {
              auto& memory = *static_cast<Memory*>(m);
              const std::size_t left = memory.bytes.size() - std::min(memory.place, memory.bytes.size());
              const std::size_t part = std::min(left, static_cast<std::size_t>(count));
              if (part > 0) std::memcpy(data, memory.bytes.data() + memory.place, part);
              memory.place += part;
              return static_cast<sf_count_t>(part);
            },
            [](const void* data, sf_count_t count, void* m) -> sf_count_t {
              auto& memory = *static_cast<Memory*>(m);
              const std::size_t end = memory.place + static_cast<std::size_t>(count);
              try {
                memory.bytes.resize(std::max(memory.bytes.size(), end));
              } catch (...) {
                return 0;  // an exception must not cross libsndfile; a short write becomes its error
              }
              std::memcpy(memory.bytes.data() + memory.place, data, static_cast<std::size_t>(count));
              memory.place = end;
              return count;
            },
            [](void* m) { return static_cast<sf_count_t>(static_cast<Memory*>(m)->place); }};
  }
};

std::string extension_of(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

/// libsndfile's format; 0 where there is none.
int format_of(const std::string& extension, int bits) {
  if (extension == ".ogg") return SF_FORMAT_OGG | SF_FORMAT_VORBIS;
  const int depth = bits == 16 ? SF_FORMAT_PCM_16 : bits == 24 ? SF_FORMAT_PCM_24 : 0;
  if (extension == ".wav") return bits == 32 ? SF_FORMAT_WAV | SF_FORMAT_FLOAT : depth != 0 ? SF_FORMAT_WAV | depth : 0;
  return extension == ".flac" && depth != 0 ? SF_FORMAT_FLAC | depth : 0;
}

bool is_audio(const std::string& extension) {
  return extension == ".wav" || extension == ".flac" || extension == ".ogg";
}

}  // namespace

AudioInfo audio_info(const fs::path& path) { return Reader("audio_info", path).info(); }

Audio read_audio(const fs::path& path, const ReadAudioOptions& options) {
  Reader reader("read_audio", path);
  return {reader.read(options), reader.info().sample_rate};
}

void write_audio(const fs::path& path, const Tensor& samples, std::int64_t sample_rate,
                 const WriteAudioOptions& options) {
  const std::string name = path.string(), extension = extension_of(path);
  ADJOINT_CHECK(is_audio(extension), "write_audio: the path must end in .wav, .flac or .ogg; got '{}'", name);
  ADJOINT_CHECK(samples.defined(), "write_audio: the samples of '{}' must be defined", name);
  ADJOINT_CHECK((samples.dim() == 1 || samples.dim() == 2) && is_floating_point(samples.dtype()),
                "write_audio: the samples of '{}' must be floating point (frames) or (channels, frames); got {} {}",
                name, samples.dtype(), samples.shape());
  const std::int64_t channels = samples.dim() == 1 ? 1 : samples.size(0), frames = samples.size(-1);
  const int format = format_of(extension, options.bits);
  SF_INFO info{};
  info.samplerate = static_cast<int>(std::clamp<std::int64_t>(sample_rate, 0, 0x7fffffff));
  info.channels = static_cast<int>(std::clamp<std::int64_t>(channels, 0, kMaxChannels + 1));
  info.format = format;
  ADJOINT_CHECK(format != 0 && sample_rate >= 1 && sample_rate <= 0x7fffffff && ::sf_format_check(&info) == SF_TRUE,
                "write_audio: '{}' cannot hold {} channels of {} bits at {} Hz", name, channels, options.bits,
                sample_rate);
  const std::vector<float> values = samples.detach().to_vector<float>();
  Memory memory;
  SF_VIRTUAL_IO calls = Memory::calls();
  Sound sound(::sf_open_virtual(&calls, SFM_WRITE, &info, &memory));
  ADJOINT_CHECK(sound != nullptr, "write_audio: cannot write '{}': {}", name, ::sf_strerror(nullptr));
  ::sf_command(sound.get(), SFC_SET_CLIPPING, nullptr, SF_TRUE);
  std::vector<float> block;
  for (std::int64_t done = 0; done < frames;) {
    const std::int64_t count = std::min(frames - done, kBlockFrames);
    block.resize(static_cast<std::size_t>(count * channels));
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t c = 0; c < channels; ++c)
        block[static_cast<std::size_t>(i * channels + c)] = values[static_cast<std::size_t>(c * frames + done + i)];
    }
    ADJOINT_CHECK(::sf_writef_float(sound.get(), block.data(), count) == count, "write_audio: cannot write '{}': {}",
                  name, ::sf_strerror(sound.get()));
    done += count;
  }
  ADJOINT_CHECK(::sf_close(sound.release()) == 0, "write_audio: cannot finish '{}'", name);
  AtomicFile file("write_audio", path);
  file.write(memory.bytes.data(), memory.bytes.size());
  file.commit();
}

AudioFolder::AudioFolder(const fs::path& folder, AudioFolderOptions options) : options_(std::move(options)) {
  ADJOINT_CHECK(options_.frames >= 0, "AudioFolder: frames must be at least 0; got {}", options_.frames);
  ADJOINT_CHECK(options_.sample_rate >= 0, "AudioFolder: sample_rate must be at least 0; got {}", options_.sample_rate);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error); !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (is_audio(extension_of(entry->path())) && entry->is_regular_file(error)) paths_.push_back(entry->path());
  }
  ADJOINT_CHECK(!error, "AudioFolder: cannot list '{}': {}", folder.string(), error.message());
  ADJOINT_CHECK(!paths_.empty(), "AudioFolder: '{}' must hold at least one .wav, .flac or .ogg file; got none",
                folder.string());
  std::sort(paths_.begin(), paths_.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
}

Example AudioFolder::get(std::int64_t index, Generator& generator) const {
  ADJOINT_CHECK(index >= 0 && index < size(), "AudioFolder: index must be from 0 to {}; got {}", size() - 1, index);
  Reader reader("AudioFolder", paths_[static_cast<std::size_t>(index)]);
  const AudioInfo& info = reader.info();
  const std::int64_t rate = options_.sample_rate == 0 ? info.sample_rate : options_.sample_rate;
  ReadAudioOptions part{.max_samples = options_.max_samples};
  // Frames of the file that a piece takes, rounded up.
  const double needed = static_cast<double>(options_.frames) * static_cast<double>(info.sample_rate);
  const double wanted = std::ceil(needed / static_cast<double>(rate));
  if (options_.frames > 0 && wanted < static_cast<double>(info.frames)) {
    part.frames = static_cast<std::int64_t>(wanted);
    part.start = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(info.frames - part.frames + 1)));
  }
  Audio audio{reader.read(part), rate};
  if (rate != info.sample_rate) audio.samples = resample(audio.samples, info.sample_rate, rate);
  if (options_.frames > 0) {
    const std::int64_t held = std::min(audio.samples.size(1), options_.frames);
    Tensor piece = Tensor::zeros({info.channels, options_.frames});
    piece.narrow(1, 0, held).copy_(audio.samples.narrow(1, 0, held));
    audio.samples = piece;
  }
  return options_.transform ? options_.transform(audio, generator) : Example{audio.samples, {}};
}

}  // namespace adjoint::data
