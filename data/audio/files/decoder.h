// The readers of the formats of sound files. Internal.
#pragma once

#include <adjoint/core/base/file.h>
#include <adjoint/data/audio/audio.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace adjoint::data::audio {

/// An open file, frame by frame. Errors name the operation and the path.
class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;

  /// Frames are -1 if they are unknown before the end: the file does not state them, or states an implausible number.
  const AudioInfo& info() const { return info_; }
  /// The next frames, interleaved by channel; fewer only at the end. Throws Error for damage.
  virtual std::int64_t read(float* samples, std::int64_t frames) = 0;
  /// Continues at this frame. Throws Error if it cannot be reached.
  virtual void seek(std::int64_t frame) = 0;
  /// Call it after the last frame of a file that was read from the first frame on. Throws Error if the samples differ
  /// from those that were written, as far as the file can tell.
  virtual void check_whole() {}

 protected:
  AudioInfo info_;
};

struct SoundFile {
  const char* op;
  std::string path;
  Descriptor file;
  std::uint64_t size;
  bool damaged;  // accept as much as is readable
};

inline constexpr const char* kNoEnd = "its end is missing";
inline constexpr std::int64_t kMaxChannels = 1024;

/// Up to `count` bytes of a file from `from` on, fewer if it ends earlier.
std::string bytes_at(int file, std::uint64_t from, std::uint64_t count);

/// Describes the damage of an OGG file, because libsndfile skips damaged pages; null for an intact file and for one
/// that is not OGG.
const char* damage_of_ogg(int file, std::uint64_t size);

/// Bytes that replace a file's own.
struct Patch {
  std::uint64_t at = 0;
  std::string bytes;
};
/// The length of a WAV file's samples, if its recorder was interrupted before writing it; no bytes for a correct file,
/// and for one that is not WAV. Throws Error if the file ends before its samples begin.
Patch wav_patch(const SoundFile& sound);

/// Decodes all formats.
std::unique_ptr<Decoder> sndfile_decoder(SoundFile sound);

/// Decodes FLAC and checks its checksums. Exists only if libFLAC is available.
std::unique_ptr<Decoder> flac_decoder(SoundFile sound);
/// Returns true for native FLAC, not FLAC in OGG.
bool is_flac(const SoundFile& sound);

}  // namespace adjoint::data::audio
