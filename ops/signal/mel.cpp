#include <adjoint/ops/signal/mel.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/matmul/matmul.h>

#include <cmath>

namespace adjoint {
namespace {

// Slaney's scale: linear up to a corner, logarithmic from there on.
constexpr double kHzPerMel = 200.0 / 3, kCornerHz = 1000.0, kCornerMel = kCornerHz / kHzPerMel;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hz, MelScale scale) {
  if (scale == MelScale::kHTK) return 2595 * std::log10(1 + hz / 700);
  return hz < kCornerHz ? hz / kHzPerMel : kCornerMel + std::log(hz / kCornerHz) / kLogStep;
}

Tensor hz_of(const Tensor& mel, MelScale scale) {
  if (scale == MelScale::kHTK) return 700 * (exp(mel * (std::log(10.0) / 2595)) - 1);
  return where(mel < kCornerMel, mel * kHzPerMel, kCornerHz * exp((mel - kCornerMel) * kLogStep));
}

}  // namespace

Tensor mel_filter_bank(std::int64_t n_mels, std::int64_t n_fft, double sample_rate, const MelOptions& mel,
                       const TensorOptions& options) {
  const OpScope scope("mel_filter_bank");
  ADJOINT_CHECK(n_mels >= 1 && n_fft >= 1 && sample_rate > 0,
                "mel_filter_bank: n_mels, n_fft and sample_rate must be positive; got {}, {}, {}", n_mels, n_fft,
                sample_rate);
  check_enumerator("mel_filter_bank", "MelScale", mel.scale, MelScale::kSlaney);
  check_enumerator("mel_filter_bank", "MelNorm", mel.norm, MelNorm::kSlaney);
  const double f_max = mel.f_max.value_or(sample_rate / 2);
  ADJOINT_CHECK(mel.f_min >= 0 && mel.f_min < f_max && std::isfinite(f_max),
                "mel_filter_bank: f_min must lie in [0, f_max); got f_min {}, f_max {}", mel.f_min, f_max);
  const DType dtype = options.dtype.value_or(kFloat32);
  ADJOINT_CHECK(is_floating_point(dtype), "mel_filter_bank: the dtype must be floating point; got {}", dtype);
  // Computed on the device itself, so that nothing waits for a copy.
  const auto count = [&](std::int64_t n) {
    return Tensor::arange(0, static_cast<double>(n), 1, {.dtype = kFloat64, .device = options.device});
  };
  const double first = mel_of(mel.f_min, mel.scale), last = mel_of(f_max, mel.scale);
  const Tensor corners =
      hz_of(count(n_mels + 2) * ((last - first) / static_cast<double>(n_mels + 1)) + first, mel.scale);
  const Tensor bins = count(n_fft / 2 + 1) * (sample_rate / static_cast<double>(n_fft));
  const auto corner = [&](std::int64_t from) { return corners.narrow(0, from, n_mels).unsqueeze(1); };
  const Tensor rising = (bins - corner(0)) / (corner(1) - corner(0));
  const Tensor falling = (corner(2) - bins) / (corner(2) - corner(1));
  Tensor bank = clamp_min(minimum(rising, falling), 0.0);
  if (mel.norm == MelNorm::kSlaney) bank = bank * (2.0 / (corner(2) - corner(0)));
  return bank.to(dtype).requires_grad_(options.requires_grad);
}

Tensor mel_spectrogram(const Tensor& x, const MelSpectrogramOptions& o) {
  const OpScope scope("mel_spectrogram");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return mel_spectrogram(full[0], o);
  check_defined("mel_spectrogram", "x", x);
  const Tensor wide = widened(x);
  const Tensor bins = spectrogram(wide, o.n_fft,
                                  {.hop_length = o.hop_length,
                                   .win_length = o.win_length,
                                   .window = o.window,
                                   .center = o.center,
                                   .pad_mode = o.pad_mode,
                                   .normalized = o.normalized,
                                   .power = o.power});
  const Tensor bank =
      mel_filter_bank(o.n_mels, o.n_fft, o.sample_rate, o.mel, {.dtype = wide.dtype(), .device = wide.device()});
  return matmul(bank, bins).to(x.dtype());
}

}  // namespace adjoint
