// Short-time Fourier transforms, with PyTorch's arguments and results, and their spectrograms.
//
// Complex numbers are a last axis of 2 (ops/signal/fft.h). float16 and bfloat16 are computed in float32 and rounded
// once. A window may have any floating-point dtype and is converted to the dtype of the computation. Everything is
// differentiable, in the window too, to any order.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/pad/pad.h>

#include <cstdint>

namespace adjoint {

struct StftOptions {
  /// Elements from one frame's start to the next's; 0 means n_fft / 4.
  std::int64_t hop_length = 0;
  /// The length of the window, which is centred in a frame with zeros around it; 0 means n_fft.
  std::int64_t win_length = 0;
  /// (win_length); undefined: ones.
  Tensor window = {};
  /// True: frame t's middle is at t hop_length, and n_fft / 2 elements are padded at each end. If false, frame t starts
  /// there.
  bool center = true;
  Named<PadMode> pad_mode = PadMode::kReflect;
  /// Multiply by 1 / sqrt(n_fft).
  bool normalized = false;
  /// Only bins 0 to n_fft / 2; the others are their conjugates.
  bool onesided = true;
};

/// x (..., L) -> (..., bins, frames, 2), frames = 1 + (L' - n_fft) / hop_length, where L' is L plus, with center, 2
/// (n_fft / 2): torch.view_as_real(torch.stft(...)), for a real signal. As in PyTorch, the result is a view that is not
/// contiguous: in memory, bins of one frame are neighbours. Throws Error unless x is floating point, L is long enough
/// for the padding (reflect: more than n_fft / 2), a frame fits into L', hop_length is positive, win_length is in [1,
/// n_fft] and the window has that length.
ADJOINT_API Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options = {});

struct IstftOptions {
  std::int64_t hop_length = 0;
  std::int64_t win_length = 0;
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  /// True: x holds n_fft / 2 + 1 bins. False: n_fft bins, of which those after the first n_fft / 2 + 1 are not read.
  bool onesided = true;
  /// The length of the result, which is cut, or padded with zeros after the end of the frames. 0: the length that
  /// frames cover, with center minus n_fft / 2 at each end.
  std::int64_t length = 0;
};

/// The signal whose stft is nearest to x in the least-squares sense (Griffin, Lim: "Signal estimation from modified
/// short-time Fourier transform", 1984): frames are transformed back, multiplied by the window, added up, and divided
/// by the sum of the squares of the overlapping windows. x (..., bins, frames, 2) -> (..., L). Waits for the device.
/// Throws Error as stft does, for x of other shapes, for hop_length above win_length, if no frame reaches the result,
/// and if the sum of squares is below 1e-11 anywhere.
ADJOINT_API Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options = {});

struct SpectrogramOptions {
  /// 0 means win_length / 2.
  std::int64_t hop_length = 0;
  /// 0 means n_fft.
  std::int64_t win_length = 0;
  /// Undefined: the periodic Hann window.
  Tensor window = {};
  bool center = true;
  Named<PadMode> pad_mode = PadMode::kReflect;
  bool normalized = false;
  bool onesided = true;
  /// The power of the magnitude: 1 gives the magnitude itself, 2 its square. The gradient is 0 where the magnitude is
  /// 0.
  double power = 2.0;
};

/// |stft(x)|^power, with torchaudio's defaults: x (..., L) -> (..., bins, frames). Throws Error as stft does and for a
/// power that is not positive.
ADJOINT_API Tensor spectrogram(const Tensor& x, std::int64_t n_fft = 400, const SpectrogramOptions& options = {});

}  // namespace adjoint
