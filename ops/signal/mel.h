// The mel scale: spectrograms whose bins are spaced as the ear perceives them.
#pragma once

#include <adjoint/ops/signal/stft.h>

#include <cstdint>
#include <optional>

namespace adjoint {

/// The conversion from Hz to mel. kHTK: 2595 log10(1 + f / 700) (O'Shaughnessy: "Speech communication: human and
/// machine", 1987). kSlaney: linear below 1 kHz, 3 mel each 200 Hz, and logarithmic above, 27 mel each factor of 6.4
/// (Slaney: "Auditory toolbox", 1998).
enum class MelScale : std::uint8_t { kHTK, kSlaney };
/// kSlaney: each filter has the same area, with a height of 2 / (its width in Hz); kNone: the height is 1.
enum class MelNorm : std::uint8_t { kNone, kSlaney };

struct MelOptions {
  /// Hz: the start of the first filter and the end of the last; an absent f_max means sample_rate / 2.
  double f_min = 0.0;
  std::optional<double> f_max = {};
  MelScale scale = MelScale::kHTK;
  MelNorm norm = MelNorm::kNone;
};

/// (n_mels, n_fft / 2 + 1): triangles over the bins k sample_rate / n_fft, whose corners are n_mels + 2 points evenly
/// spaced in mel. The formulas are those of librosa's filters.mel and torchaudio's melscale_fbanks, with librosa's
/// layout; the defaults are torchaudio's. Computed in float64 and rounded once. Throws Error for n_mels, n_fft or
/// sample_rate that are not positive, unless 0 <= f_min < f_max, and for a dtype that is not floating point.
ADJOINT_API Tensor mel_filter_bank(std::int64_t n_mels, std::int64_t n_fft, double sample_rate,
                                   const MelOptions& mel = {}, const TensorOptions& options = {});

struct MelSpectrogramOptions {
  double sample_rate = 16000.0;
  std::int64_t n_fft = 400, n_mels = 128;
  // As in SpectrogramOptions.
  std::int64_t hop_length = 0, win_length = 0;
  Tensor window = {};
  bool center = true;
  Named<PadMode> pad_mode = PadMode::kReflect;
  bool normalized = false;
  double power = 2.0;
  MelOptions mel = {};
};

/// mel_filter_bank(...) times spectrogram(x): x (..., L) -> (..., n_mels, frames). Differentiable, to any order. The
/// defaults are torchaudio's. Throws Error as both do.
ADJOINT_API Tensor mel_spectrogram(const Tensor& x, const MelSpectrogramOptions& options = {});

}  // namespace adjoint
