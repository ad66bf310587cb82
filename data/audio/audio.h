// Sound as tensors, sound files by libsndfile, and resampling. Part of the component Adjoint::audio, which is built if
// libsndfile is found.
//
// Sound is a float32 tensor (channels, frames) in [-1, 1].
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace adjoint::data {

struct AudioInfo {
  std::int64_t sample_rate = 0;  // Hz
  std::int64_t channels = 0, frames = 0;
};

struct Audio {
  Tensor samples;                // (channels, frames)
  std::int64_t sample_rate = 0;  // Hz
};

struct ReadAudioOptions {
  /// The part to read: `frames` frames from `start` on, or all that follow if `frames` is -1. Other parts are not
  /// decoded if the format can seek.
  std::int64_t start = 0, frames = -1;
  /// More samples, channels times frames, are an error, which is found before memory is allocated.
  std::int64_t max_samples = std::int64_t{1} << 28;
  /// Reads as much as possible of a damaged FLAC or OGG file whose beginning is intact. Damaged or missing blocks of
  /// FLAC become silence; those of OGG are left out. The file is decoded twice, because only decoding determines its
  /// length.
  bool damaged = false;
};

/// The properties that a WAV, FLAC or OGG file states. If it does not state its frames, as in files that programs write
/// to a pipe, they are counted. Throws Error, naming the path, for any other file.
ADJOINT_API AudioInfo audio_info(const std::filesystem::path& path);
/// Reads a WAV, FLAC or OGG file, recognised by content; integer samples of n bits are divided by 2^(n-1). Throws
/// Error, naming the path, for other formats, for a file that is damaged or ends early or exceeds options.max_samples,
/// and if the file does not hold the requested part. Checksums detect damage: of each block of FLAC and each page of
/// OGG, and of all samples of a FLAC file that is read completely. WAV has no checksums. A WAV file that ends early, or
/// states no samples although bytes follow, has the frames that it holds: interrupted recorders and programs that write
/// to a pipe leave such files.
///
/// In a build without libFLAC, FLAC files go through libsndfile, which ignores checksums: it detects only a missing
/// end, and a file that does not state its length is an Error.
ADJOINT_API Audio read_audio(const std::filesystem::path& path, const ReadAudioOptions& options = {});

struct WriteAudioOptions {
  /// Bits per sample: 16 or 24, or for WAV 32, which are floating point. Ignored for Vorbis (.ogg).
  int bits = 16;
};

/// Writes (channels, frames) or (frames), floating point, to a file that is replaced atomically. Its extension
/// determines the format: .wav, .flac or .ogg (Vorbis), in upper or lower case. Integer samples are clamped to [-1, 1]
/// and rounded, and NaN becomes silence except in WAV's floating point. Throws Error, naming the path, for another
/// extension, and for sound that the format cannot hold.
ADJOINT_API void write_audio(const std::filesystem::path& path, const Tensor& samples, std::int64_t sample_rate,
                             const WriteAudioOptions& options = {});

/// Resamples floating-point sound (..., frames) from `from` Hz to `to` Hz: (..., ceil(frames * to / from)), of the same
/// dtype, on the CPU. Values beyond both ends count as 0. Each result is a sum over one phase of a windowed sinc of 20
/// max(up, down) + 1 taps, where up / down is to / from in lowest terms, cut off at the lower of the two Nyquist
/// frequencies, under a Kaiser window of beta 5: scipy.signal.resample_poly(x, up, down). Not differentiable. Throws
/// Error for rates outside 1 to 2^20 Hz.
ADJOINT_API Tensor resample(const Tensor& samples, std::int64_t from, std::int64_t to);

/// Turns a file's sound into an example. Must be safe to call from several threads.
using AudioTransform = std::function<Example(const Audio& audio, Generator& generator)>;

struct AudioFolderOptions {
  /// Frames of a piece, from a random position; shorter files are padded with zeros. 0 selects whole files.
  std::int64_t frames = 0;
  /// The rate in Hz to which sound is resampled; 0 keeps the file's. `frames` counts frames after resampling.
  std::int64_t sample_rate = 0;
  std::int64_t max_samples = std::int64_t{1} << 28;
  /// If empty, examples are {samples, undefined}.
  AudioTransform transform = {};
};

/// Every .wav, .flac and .ogg file (in upper or lower case) in a folder and its subfolders, sorted by path. Each is
/// read on request, and only the requested piece of it.
class ADJOINT_API AudioFolder final : public Dataset {
 public:
  /// Throws Error if the folder holds no such file, and for options out of range.
  explicit AudioFolder(const std::filesystem::path& folder, AudioFolderOptions options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Example get(std::int64_t index, Generator& generator) const override;
  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  std::vector<std::filesystem::path> paths_;
  AudioFolderOptions options_;
};

}  // namespace adjoint::data
