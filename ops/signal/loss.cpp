#include <adjoint/ops/signal/loss.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/signal/spectra.h>
#include <adjoint/ops/signal/window.h>

namespace adjoint {
namespace {

void check_pair(const char* op, const Tensor& input, const Tensor& target) {
  check_defined(op, "input", input);
  check_defined(op, "target", target);
  ADJOINT_CHECK(is_floating_point(input.dtype()) && input.dtype() == target.dtype() &&
                    input.device() == target.device() && input.shape() == target.shape(),
                "{}: input and target must have one shape, floating-point dtype and device; got input {} of {} on {}, "
                "target {} of {} on {}",
                op, input.shape(), input.dtype(), to_string(input.device()), target.shape(), target.dtype(),
                to_string(target.device()));
}

}  // namespace

Tensor multi_resolution_stft_loss(const Tensor& input, const Tensor& target, const MultiResolutionStftOptions& o) {
  constexpr const char* kName = "multi_resolution_stft_loss";
  const OpScope scope(kName);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return multi_resolution_stft_loss(full[0], full[1], o);
  }
  check_pair(kName, input, target);
  ADJOINT_CHECK(!o.resolutions.empty(), "{}: there must be a resolution; got none", kName);
  ADJOINT_CHECK(o.floor > 0, "{}: floor must be positive; got {}", kName, o.floor);
  Tensor total;
  for (const StftResolution& r : o.resolutions) {
    const StftOptions frames{.hop_length = r.hop_length,
                             .win_length = r.win_length,
                             .window = hann_window(r.win_length, true, {.dtype = kFloat64, .device = input.device()})};
    const auto measured = [&](const Tensor& x) {
      return sqrt(clamp_min(magnitudes(spectra(kName, widened(x), r.n_fft, frames), true), o.floor));
    };
    const Tensor found = measured(input), wanted = measured(target);
    const Tensor convergence = norm(wanted - found) / norm(wanted);
    const Tensor term = convergence * o.spectral_convergence + l1_loss(log(found), log(wanted)) * o.log_magnitude;
    total = total.defined() ? total + term : term;
  }
  return (total * (1.0 / static_cast<double>(o.resolutions.size()))).to(input.dtype());
}

Tensor mel_loss(const Tensor& input, const Tensor& target, const MelLossOptions& o) {
  const OpScope scope("mel_loss");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return mel_loss(full[0], full[1], o);
  }
  check_pair("mel_loss", input, target);
  ADJOINT_CHECK(o.floor > 0, "mel_loss: floor must be positive; got {}", o.floor);
  const auto log_mel = [&](const Tensor& x) {
    return log(clamp_min(mel_spectrogram(widened(x), o.spectrogram), o.floor));
  };
  return l1_loss(log_mel(input), log_mel(target)).to(input.dtype());
}

}  // namespace adjoint
