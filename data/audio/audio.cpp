// Reads sound files, and folders of them.
#include <adjoint/data/audio/audio.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/data/audio/files/decoder.h>
#include <adjoint/data/audio/files/extensions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace adjoint::data {
namespace audio {

std::string bytes_at(int file, std::uint64_t from, std::uint64_t count) {
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(file, bytes.data(), count, static_cast<off_t>(from));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

bool is_flac(const SoundFile& sound) {
  const std::string begin = bytes_at(sound.file.get(), 0, 10);
  std::uint64_t at = 0;
  if (begin.size() == 10 && begin.starts_with("ID3")) {  // an MP3 tag, which some programs put before it
    for (std::size_t i = 6; i < 10; ++i) at = at << 7 | (static_cast<unsigned char>(begin[i]) & 0x7fU);
    at += begin.size();
  }
  return bytes_at(sound.file.get(), at, 4) == "fLaC";
}

}  // namespace audio

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlockFrames = 1 << 14;

/// An open file.
class Reader {
 public:
  Reader(const char* op, const fs::path& path, bool damaged = false,
         std::int64_t max_samples = std::numeric_limits<std::int64_t>::max())
      : op_(op), path_(path.string()), damaged_(damaged), decoder_(open()), info_(decoder_->info()) {
    if (info_.frames < 0) count_frames(max_samples);
  }

  const AudioInfo& info() const { return info_; }

  Tensor read(const ReadAudioOptions& options) {
    const std::int64_t left = info_.frames - options.start;
    const std::int64_t frames = options.frames == -1 ? left : options.frames;
    ADJOINT_CHECK(options.start >= 0 && left >= 0 && frames >= 0 && frames <= left,
                  "{}: '{}' must hold the part that is asked for; got {} frames from {} on, of {}", op_, path_,
                  options.frames, options.start, info_.frames);
    check_samples(frames, options.max_samples);
    if (options.start > 0) decoder_->seek(options.start);
    Tensor samples = Tensor::empty({info_.channels, frames});
    auto* out = samples.mutable_data<float>();
    std::vector<float> block(static_cast<std::size_t>(std::min(frames, kBlockFrames) * info_.channels));
    for (std::int64_t done = 0; done < frames;) {
      const std::int64_t count = decoder_->read(block.data(), std::min(frames - done, kBlockFrames));
      ADJOINT_CHECK(count > 0, "{}: '{}' is damaged: it ends after {} of {} frames", op_, path_, options.start + done,
                    info_.frames);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < info_.channels; ++c)
          out[c * frames + done + i] = block[static_cast<std::size_t>(i * info_.channels + c)];
      }
      done += count;
    }
    if (frames == info_.frames) decoder_->check_whole();
    return samples;
  }

 private:
  std::unique_ptr<audio::Decoder> open() const {
    const std::uint64_t size =
        InputFile(op_, path_).size();  // throws if the file cannot be opened or is not a regular file
    Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    ADJOINT_CHECK(file.is_open(), "{}: cannot open '{}'", op_, path_);
    audio::SoundFile sound{op_, path_, std::move(file), size, damaged_};
#ifdef ADJOINT_WITH_FLAC
    if (audio::is_flac(sound)) return audio::flac_decoder(std::move(sound));
#endif
    return audio::sndfile_decoder(std::move(sound));
  }

  void check_samples(std::int64_t frames, std::int64_t max_samples) const {
    ADJOINT_CHECK(frames <= max_samples / info_.channels,
                  "{}: '{}' must have at most max_samples, {}; got {} frames of {} channels", op_, path_, max_samples,
                  frames, info_.channels);
  }

  /// If the file does not state its length, its end determines it.
  void count_frames(std::int64_t max_samples) {
    const std::unique_ptr<audio::Decoder> decoder = open();
    std::vector<float> block(static_cast<std::size_t>(kBlockFrames * info_.channels));
    info_.frames = 0;
    while (const std::int64_t count = decoder->read(block.data(), kBlockFrames)) {
      info_.frames += count;
      check_samples(info_.frames, max_samples);
    }
    decoder->check_whole();
  }

  const char* op_;
  std::string path_;
  bool damaged_;
  std::unique_ptr<audio::Decoder> decoder_;
  AudioInfo info_;
};

}  // namespace

AudioInfo audio_info(const fs::path& path) { return Reader("audio_info", path).info(); }

Audio read_audio(const fs::path& path, const ReadAudioOptions& options) {
  Reader reader("read_audio", path, options.damaged, options.max_samples);
  return {reader.read(options), reader.info().sample_rate};
}

AudioFolder::AudioFolder(const fs::path& folder, AudioFolderOptions options) : options_(std::move(options)) {
  ADJOINT_CHECK(options_.frames >= 0, "AudioFolder: frames must be at least 0; got {}", options_.frames);
  ADJOINT_CHECK(options_.sample_rate >= 0, "AudioFolder: sample_rate must be at least 0; got {}", options_.sample_rate);
  std::vector<fs::path> folders{folder};
  while (!folders.empty()) {
    const fs::path next = std::exchange(folders.back(), {});
    folders.pop_back();
    std::error_code error, unknown;
    for (const std::string& name : names_in(next, error)) {
      const fs::path path = next / name;
      if (fs::is_directory(fs::symlink_status(path, unknown))) folders.push_back(path);
      if (audio::is_audio(audio::extension_of(path)) && fs::is_regular_file(path, unknown)) paths_.push_back(path);
    }
    ADJOINT_CHECK(!error, "AudioFolder: cannot list '{}': {}", next.string(), error.message());
  }
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
  // The number of the file's frames that a piece needs, rounded up.
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
