// Sound as tensors, sound files by libsndfile, and resampling. Of the component Adjoint::audio, which is there where
// libsndfile is.
//
// Sound is a float32 tensor (channels, frames) in [-1, 1].
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>
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
  /// The part to read: frames from `start` on, all that follow where `frames` is -1. Other parts are not decoded where
  /// the format can seek.
  std::int64_t start = 0, frames = -1;
  /// More samples, channels times frames, are an error, found before memory is asked for.
  std::int64_t max_samples = std::int64_t{1} << 28;
};

/// What a WAV, FLAC or OGG file says of itself. Throws Error, naming the path, for what is none of them.
ADJOINT_API AudioInfo audio_info(const std::filesystem::path& path);
/// Reads a WAV, FLAC or OGG file, told apart by content; integer samples of n bits are divided by 2^(n-1). Throws
/// Error, naming the path, for what is none of them, is damaged or ends early, exceeds options.max_samples, and where
/// the file does not hold the part that is asked for. A WAV file that ends early has the frames that it holds, for
/// recorders that are stopped, and programs that write to a pipe, leave such files.
ADJOINT_API Audio read_audio(const std::filesystem::path& path, const ReadAudioOptions& options = {});

struct WriteAudioOptions {
  /// A sample's bits: 16 or 24, or for WAV 32, which are floating point as they are. Vorbis (.ogg) has none.
  int bits = 16;
};

/// Writes (channels, frames) or (frames), floating point, to a file that is replaced atomically, as its extension says:
/// .wav, .flac or .ogg (Vorbis), in either case. Integer samples are clamped to [-1, 1] and rounded. Throws Error,
/// naming the path, for another extension, and for what the format cannot hold.
ADJOINT_API void write_audio(const std::filesystem::path& path, const Tensor& samples, std::int64_t sample_rate,
                             const WriteAudioOptions& options = {});

/// Floating-point sound (..., frames) at `from` Hz as (..., ceil(frames * to / from)) at `to` Hz, of the same dtype, on
/// the CPU. Values beyond both ends count as 0. Each result is a sum over one phase of a windowed sinc of
/// 20 max(up, down) + 1 taps, where up / down is to / from in lowest terms, cut off at the lower of the two Nyquist
/// frequencies, under a Kaiser window of beta 5: scipy.signal.resample_poly(x, up, down). Not differentiable. Throws
/// Error for rates outside 1 to 2^20 Hz.
ADJOINT_API Tensor resample(const Tensor& samples, std::int64_t from, std::int64_t to);

/// Turns a file's sound into an example. Must be safe to call from several threads.
using AudioTransform = std::function<Example(const Audio& audio, Generator& generator)>;

struct AudioFolderOptions {
  /// Frames of a piece, from a random place; shorter files are padded with zeros. 0 takes whole files.
  std::int64_t frames = 0;
  /// Hz that sound is resampled to; 0 leaves it as it is. `frames` counts afterwards.
  std::int64_t sample_rate = 0;
  std::int64_t max_samples = std::int64_t{1} << 28;
  /// None gives {samples, undefined}.
  AudioTransform transform = {};
};

/// Every .wav, .flac and .ogg file (in either case) of a folder and the folders in it, sorted by path. Each is read
/// when it is asked for, and of it the piece alone.
class ADJOINT_API AudioFolder final : public Dataset {
 public:
  /// Throws Error where the folder holds no such file, and for options out of range.
  explicit AudioFolder(const std::filesystem::path& folder, AudioFolderOptions options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Example get(std::int64_t index, Generator& generator) const override;
  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  std::vector<std::filesystem::path> paths_;
  AudioFolderOptions options_;
};

}  // namespace adjoint::data
