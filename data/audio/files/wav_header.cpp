// The length in a WAV file: "RIFF", or "RF64" for more than 4 GiB, a length, "WAVE", and chunks, each a name of four
// letters, a length and as many bytes. "data" has the samples, and RF64's first chunk, "ds64", their length.
#include <adjoint/data/audio/files/decoder.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace adjoint::data::audio {
namespace {

constexpr std::uint64_t kChunk = 8, kFirst = 12;  // bytes before a chunk's contents, and before the first chunk

struct Wav {
  const SoundFile& sound;
  bool big_endian = false;

  std::uint64_t number_at(std::uint64_t at, std::uint64_t count) const {
    std::string bytes = bytes_at(sound.file.get(), at, count);
    if (!big_endian) std::reverse(bytes.begin(), bytes.end());
    std::uint64_t value = 0;
    for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }
  std::string number(std::uint64_t value, int count) const {
    std::string bytes;
    for (int i = count; i-- > 0;) bytes += static_cast<char>(value >> 8 * i & 0xff);
    if (!big_endian) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  }
  std::string name_at(std::uint64_t at) const { return bytes_at(sound.file.get(), at, 4); }
  /// The start of the next chunk.
  std::uint64_t behind(std::uint64_t at) const {
    const std::uint64_t length = number_at(at + 4, 4);
    return at + kChunk + length + length % 2;
  }
  /// Returns true if only chunks are between `at` and the file's end.
  bool are_chunks(std::uint64_t at) const {
    while (at + kChunk <= sound.size) {
      const std::string name = name_at(at);
      if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isprint(c) != 0; })) return false;
      at = behind(at);
    }
    return at == sound.size || at == sound.size + 1;  // the last padding byte may be missing
  }
};

}  // namespace

Patch wav_patch(const SoundFile& sound) {
  const std::string begin = bytes_at(sound.file.get(), 0, kFirst);
  const std::string_view form = std::string_view(begin).substr(0, 4);
  const bool is_rf64 = form == "RF64";
  if ((form != "RIFF" && form != "RIFX" && !is_rf64) || !begin.ends_with("WAVE")) return {};
  const Wav wav{sound, form == "RIFX"};
  std::uint64_t long_length_at = 0;
  for (std::uint64_t at = kFirst; at < sound.size; at = wav.behind(at)) {
    const std::string name = wav.name_at(at);
    if (name == "ds64") long_length_at = at + kChunk + 8;
    if (name != "data") continue;
    const std::uint64_t first = at + kChunk, length_at = is_rf64 ? long_length_at : at + 4;
    const int length_bytes = is_rf64 ? 8 : 4;
    ADJOINT_CHECK(first <= sound.size, "{}: '{}' is damaged: it ends before its samples begin", sound.op, sound.path);
    if (length_at == 0 || wav.number_at(length_at, static_cast<std::uint64_t>(length_bytes)) != 0) return {};
    const std::uint64_t left = sound.size - first;
    if (left == 0 || wav.are_chunks(first)) return {};
    ADJOINT_CHECK(is_rf64 || left < 0xffffffff,
                  "{}: '{}' must say how long it is, as a WAV file of 4 GiB or more; got 0 and {} bytes", sound.op,
                  sound.path, left);
    return {length_at, wav.number(left, length_bytes)};
  }
  return {};
}

}  // namespace adjoint::data::audio
