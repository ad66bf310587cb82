// Sound files through libsndfile.
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/data/audio/files/decoder.h>

#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <unistd.h>

namespace adjoint::data::audio {
namespace {

class SndfileDecoder final : public Decoder {
 public:
  explicit SndfileDecoder(SoundFile sound) : sound_(std::move(sound)), patch_(wav_patch(sound_)) {
    const char* const damage = sound_.damaged ? nullptr : damage_of_ogg(sound_.file.get(), sound_.size);
    SF_INFO info{};
    {
      // libsndfile stores the text of a failure in a variable that all threads share.
      static std::mutex opening;
      static const HeldAtFork at_fork(opening);
      const std::lock_guard lock(opening);
      SF_VIRTUAL_IO calls = file_calls();
      file_.reset(::sf_open_virtual(&calls, SFM_READ, &info, this));
      ADJOINT_CHECK(file_ != nullptr, "{}: '{}' must be a WAV, FLAC or OGG file: {}", sound_.op, sound_.path,
                    ::sf_strerror(nullptr));
    }
    const int format = info.format & SF_FORMAT_TYPEMASK;
    const bool is_ogg = format == SF_FORMAT_OGG;
    ADJOINT_CHECK(format == SF_FORMAT_WAV || format == SF_FORMAT_WAVEX || format == SF_FORMAT_RF64 ||
                      format == SF_FORMAT_FLAC || is_ogg,
                  "{}: '{}' must be a WAV, FLAC or OGG file", sound_.op, sound_.path);
    ADJOINT_CHECK(info.samplerate >= 1 && info.channels >= 1 && info.channels <= kMaxChannels && info.frames >= 0,
                  "{}: '{}' is damaged: it claims {} channels, {} frames at {} Hz", sound_.op, sound_.path,
                  info.channels, info.frames, info.samplerate);
    const bool tells = info.frames < SF_COUNT_MAX;  // false for OGG if libsndfile does not find the last page
    ADJOINT_CHECK(damage == nullptr && (tells || is_ogg), "{}: '{}' is damaged: {}", sound_.op, sound_.path,
                  damage != nullptr ? damage : kNoEnd);
    info_ = {info.samplerate, info.channels, !tells || (sound_.damaged && is_ogg) ? -1 : info.frames};
  }

  std::int64_t read(float* samples, std::int64_t frames) override {
    return std::max<std::int64_t>(::sf_readf_float(file_.get(), samples, frames), 0);
  }

  void seek(std::int64_t frame) override {
    ADJOINT_CHECK(::sf_seek(file_.get(), frame, SEEK_SET) == frame, "{}: '{}' is damaged: frame {} cannot be reached",
                  sound_.op, sound_.path, frame);
  }

 private:
  struct Close {
    void operator()(SNDFILE* file) const { ::sf_close(file); }
  };

  static SF_VIRTUAL_IO file_calls() {
    return {[](void* self) { return static_cast<sf_count_t>(static_cast<SndfileDecoder*>(self)->sound_.size); },
            [](sf_count_t offset, int whence, void* self) {
              auto& file = *static_cast<SndfileDecoder*>(self);
              const std::int64_t base = whence == SEEK_SET   ? 0
                                        : whence == SEEK_CUR ? file.place_
                                                             : static_cast<std::int64_t>(file.sound_.size);
              std::int64_t place = 0;
              if (!__builtin_add_overflow(base, offset, &place) && place >= 0) file.place_ = place;
              return static_cast<sf_count_t>(file.place_);
            },
            [](void* data, sf_count_t count, void* self) {
              return static_cast<SndfileDecoder*>(self)->read_bytes(static_cast<char*>(data), count);
            },
            [](const void*, sf_count_t, void*) -> sf_count_t { return 0; },
            [](void* self) { return static_cast<sf_count_t>(static_cast<SndfileDecoder*>(self)->place_); }};
  }

  sf_count_t read_bytes(char* data, sf_count_t count) {
    std::int64_t done = 0;
    while (done < count) {
      const ssize_t got =
          ::pread(sound_.file.get(), data + done, static_cast<std::size_t>(count - done), place_ + done);
      if (got <= 0) break;
      done += got;
    }
    for (std::size_t i = 0; i < patch_.bytes.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(patch_.at + i) - place_;
      if (at >= 0 && at < done) data[at] = patch_.bytes[i];
    }
    place_ += done;
    return done;
  }

  SoundFile sound_;
  Patch patch_;
  std::int64_t place_ = 0;
  std::unique_ptr<SNDFILE, Close> file_;  // last member, because it reads through the others
};

}  // namespace

std::unique_ptr<Decoder> sndfile_decoder(SoundFile sound) { return std::make_unique<SndfileDecoder>(std::move(sound)); }

}  // namespace adjoint::data::audio
