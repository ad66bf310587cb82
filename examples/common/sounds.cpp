#include "common/sounds.h"

#include <adjoint/core/base/error.h>
#if EXAMPLES_WITH_AUDIO
#include <adjoint/data/audio/audio.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#else
#include "common/output.h"

#include <adjoint/core/base/file.h>
#include <adjoint/data/log.h>
#include <adjoint/data/log_record.h>
#endif

#include <fmt/format.h>

#include <bit>
#include <memory>
#include <utility>

namespace examples {
namespace {

namespace data = adjoint::data;
namespace fs = std::filesystem;
using adjoint::Tensor;

#if !EXAMPLES_WITH_AUDIO
/// Writes the file that a log would make of a sound.
class WavWriter final : public data::LogWriter {
 public:
  explicit WavWriter(fs::path path) : path_(std::move(path)) {}
  void write(const data::LogRecord& record) override {
    const auto& wav = std::get<data::LogAudio>(record.value).wav;
    adjoint::AtomicFile file("write_sound", path_);
    file.write(wav.data(), wav.size());
    file.commit();
  }

 private:
  fs::path path_;
};
#endif

}  // namespace

#if EXAMPLES_WITH_AUDIO

bool can_read_sound() { return true; }

Sound read_sound(const fs::path& path, std::int64_t sample_rate) {
  data::Audio audio = data::read_audio(path);
  if (audio.samples.numel() == 0)
    throw adjoint::Error(fmt::format("read_sound: '{}' must hold samples; got none", path.string()));
  if (!adjoint::isfinite(audio.samples).all().item<bool>())
    throw adjoint::Error(fmt::format("read_sound: '{}' must hold finite samples", path.string()));
  if (audio.sample_rate != sample_rate) audio.samples = data::resample(audio.samples, audio.sample_rate, sample_rate);
  return {path.string(), audio.samples};
}

void write_sound(const fs::path& path, const Tensor& samples, std::int64_t sample_rate) {
  data::write_audio(path, samples, sample_rate);
}

const std::vector<std::string>& sound_extensions() {
  static const std::vector<std::string> all{".wav", ".flac", ".ogg"};
  return all;
}

#else

bool can_read_sound() { return false; }

Sound read_sound(const fs::path& path, std::int64_t) {
  throw adjoint::Error(
      fmt::format("read_sound: cannot read '{}': this build has no libsndfile; install libsndfile1-dev and build again",
                  path.string()));
}

void write_sound(const fs::path& path, const Tensor& samples, std::int64_t sample_rate) {
  check_output("write_sound", path, sound_extensions());
  data::Log log;
  log.add_writer(std::make_unique<WavWriter>(path));
  log.add_audio("sound", samples, 0, sample_rate);
}

const std::vector<std::string>& sound_extensions() {
  static const std::vector<std::string> all{".wav"};
  return all;
}

#endif

std::uint64_t fingerprint(const std::vector<Sound>& sounds) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto take = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
  for (const Sound& sound : sounds) {
    const Tensor samples = sound.samples.contiguous();
    take(static_cast<std::uint64_t>(samples.numel()));
    const auto* values = samples.data<float>();
    for (std::int64_t i = 0; i < samples.numel(); ++i) take(std::bit_cast<std::uint32_t>(values[i]));
  }
  return hash;
}

}  // namespace examples
