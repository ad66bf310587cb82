// Writes sound files through libsndfile.
#include <adjoint/data/audio/audio.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/data/audio/files/decoder.h>
#include <adjoint/data/audio/files/extensions.h>

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlockFrames = 1 << 14;

struct Close {
  void operator()(SNDFILE* file) const { ::sf_close(file); }
};
using Sound = std::unique_ptr<SNDFILE, Close>;

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

/// libsndfile's format; 0 if it is missing.
int format_of(const std::string& extension, int bits) {
  if (extension == ".ogg") return SF_FORMAT_OGG | SF_FORMAT_VORBIS;
  const int depth = bits == 16 ? SF_FORMAT_PCM_16 : bits == 24 ? SF_FORMAT_PCM_24 : 0;
  if (extension == ".wav") return bits == 32 ? SF_FORMAT_WAV | SF_FORMAT_FLOAT : depth != 0 ? SF_FORMAT_WAV | depth : 0;
  return extension == ".flac" && depth != 0 ? SF_FORMAT_FLAC | depth : 0;
}

/// Makes a value acceptable to encoders: NaN becomes silence, and Vorbis does not accept infinities either.
float finite(float value) {
  if (std::isnan(value)) return 0.0F;
  return std::isinf(value) ? std::copysign(1.0F, value) : value;
}

}  // namespace

void write_audio(const fs::path& path, const Tensor& samples, std::int64_t sample_rate,
                 const WriteAudioOptions& options) {
  const std::string name = path.string(), extension = audio::extension_of(path);
  ADJOINT_CHECK(audio::is_audio(extension), "write_audio: the path must end in .wav, .flac or .ogg; got '{}'", name);
  ADJOINT_CHECK(samples.defined(), "write_audio: the samples of '{}' must be defined", name);
  ADJOINT_CHECK((samples.dim() == 1 || samples.dim() == 2) && is_floating_point(samples.dtype()),
                "write_audio: the samples of '{}' must be floating point (frames) or (channels, frames); got {} {}",
                name, samples.dtype(), samples.shape());
  const std::int64_t channels = samples.dim() == 1 ? 1 : samples.size(0), frames = samples.size(-1);
  const int format = format_of(extension, options.bits);
  SF_INFO info{};
  info.samplerate = static_cast<int>(std::clamp<std::int64_t>(sample_rate, 0, 0x7fffffff));
  info.channels = static_cast<int>(std::clamp<std::int64_t>(channels, 0, audio::kMaxChannels + 1));
  info.format = format;
  ADJOINT_CHECK(format != 0 && sample_rate >= 1 && sample_rate <= 0x7fffffff && ::sf_format_check(&info) == SF_TRUE,
                "write_audio: '{}' cannot hold {} channels of {} bits at {} Hz", name, channels, options.bits,
                sample_rate);
  std::vector<float> values = samples.detach().to_vector<float>();
  const int encoding = format & SF_FORMAT_SUBMASK;
  if (encoding != SF_FORMAT_FLOAT) std::transform(values.begin(), values.end(), values.begin(), finite);
  if (encoding == SF_FORMAT_PCM_16 || encoding == SF_FORMAT_PCM_24) {
    // libsndfile rounds to FLAC, but down to WAV.
    const auto unit = std::ldexp(1.0F, options.bits - 1);
    for (float& value : values) value = std::rint(value * unit) / unit;
  }
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

}  // namespace adjoint::data
