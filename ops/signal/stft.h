// Short-time Fourier transforms, with PyTorch's arguments and results, and the spectrograms that they give.
//
// Complex numbers are a last axis of 2 (ops/signal/fft.h). float16 and bfloat16 are computed in float32 and rounded
// once. A window may have any floating-point dtype: it is converted to the one that is computed in. Everything is
// differentiable, in the window too, to any order.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/pad/pad.h>

#include <cstdint>

namespace adjoint {

struct StftOptions {
  /// Elements from one frame's start to the next's; 0 stands for n_fft / 4.
  std::int64_t hop_length = 0;
  /// Of the window, which stands in a frame's middle, zeros around it; 0 stands for n_fft.
  std::int64_t win_length = 0;
  /// (win_length); undefined: ones.
  Tensor window = {};
  /// Frame t's middle is at t hop_length, n_fft / 2 elements being padded at each end; else its start is.
  bool center = true;
  PadMode pad_mode = PadMode::kReflect;
  /// Multiply by 1 / sqrt(n_fft).
  bool normalized = false;
  /// Bins 0 to n_fft / 2 alone; those behind are their conjugates.
  bool onesided = true;
};

/// x (..., L) -> (..., bins, frames, 2), frames = 1 + (L' - n_fft) / hop_length, L' being L and, with center, 2 (n_fft
/// / 2) more: torch.view_as_real(torch.stft(...)), of a real signal. As PyTorch's, the result is a view that is not
/// contiguous: in memory, bins of one frame are neighbours. Throws Error unless x is floating point, L has as
/// many elements as the padding takes (reflect: more than n_fft / 2), a frame fits into L', hop_length is positive,
/// win_length lies in [1, n_fft] and the window has it.
ADJOINT_API Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options = {});

struct IstftOptions {
  std::int64_t hop_length = 0;
  std::int64_t win_length = 0;
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  /// x holds n_fft / 2 + 1 bins; else n_fft, of which those behind are not read.
  bool onesided = true;
  /// Of the result: cut, or padded with zeros behind what frames reach. 0: what they reach, with center less n_fft / 2
  /// at each end.
  std::int64_t length = 0;
};

/// The signal whose stft is nearest to x, in the least squares' sense (Griffin, Lim: "Signal estimation from modified
/// short-time Fourier transform", 1984): frames are transformed back, multiplied by the window, added up, and divided
/// by the sum of the squares of the windows that lie there. x (..., bins, frames, 2) -> (..., L). Waits for the device.
/// Throws Error as stft does, for x of other shapes, for hop_length above win_length, where no frame reaches the
/// result, and where the sum of squares is below 1e-11 somewhere.
ADJOINT_API Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options = {});

struct SpectrogramOptions {
  /// 0 stands for win_length / 2.
  std::int64_t hop_length = 0;
  /// 0 stands for n_fft.
  std::int64_t win_length = 0;
  /// Undefined: the periodic Hann window.
  Tensor window = {};
  bool center = true;
  PadMode pad_mode = PadMode::kReflect;
  bool normalized = false;
  bool onesided = true;
  /// Of the magnitude: 1 gives the magnitude itself, 2 its square. The gradient is 0 where the magnitude is.
  double power = 2.0;
};

/// |stft(x)|^power, with torchaudio's defaults: x (..., L) -> (..., bins, frames). Throws Error as stft does and for a
/// power that is not positive.
ADJOINT_API Tensor spectrogram(const Tensor& x, std::int64_t n_fft = 400, const SpectrogramOptions& options = {});

}  // namespace adjoint
