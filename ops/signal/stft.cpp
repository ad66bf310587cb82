#include <adjoint/ops/signal/stft.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/signal/fft.h>
#include <adjoint/ops/signal/frame.h>
#include <adjoint/ops/signal/kernels.h>
#include <adjoint/ops/signal/spectra.h>
#include <adjoint/ops/signal/window.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <vector>

namespace adjoint {
namespace {

constexpr double kLeastSquares = 1e-11;  // PyTorch's

TensorSpec magnitude_spec(Operands in, const MagnitudeAttr&) {
  Shape shape = in[0].shape();
  shape.erase(shape.size() - 1);
  return {shape, in[0].dtype()};
}

// For the square 2 g z, for the magnitude g z / |z|, or 0 where the magnitude is 0.
Tensor magnitude_gradient(const Ctx<MagnitudeAttr>& c) {
  if (c.attr.squared) return (c.grad * 2.0).unsqueeze(-1) * c.in[0];
  const Tensor positive = c.out > 0.0;
  return where(positive, c.grad, 0.0).unsqueeze(-1) * (c.in[0] / where(positive, c.out, 1.0).unsqueeze(-1));
}

OnnxValue magnitude_onnx(OnnxCall& call, const MagnitudeAttr& attr) {
  return call.add(attr.squared ? "ReduceSumSquare" : "ReduceL2", {call.operand(0)},
                  {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", false}});
}

constinit const OpDef<MagnitudeAttr> magnitude_op{
    .name = "magnitudes",
    .infer = magnitude_spec,
    .cpu = cpu::magnitudes,
    .cuda = ADJOINT_IF_CUDA(cuda::magnitudes),
    .onnx = magnitude_onnx,
    .joint_vjp = {.saves = [](const MagnitudeAttr& attr,
                              Needs) { return attr.squared ? kSaveIn0 : kSaveIn0 | kSaveOut; },
                  .rule = [](const Ctx<MagnitudeAttr>& c, Needs, Results grads) { grads[0] = magnitude_gradient(c); }}};

// stft's and istft's options, with 0 resolved; `window` (n_fft) is undefined if it is all ones.
struct Frames {
  std::int64_t n_fft, hop, win_length;
  Tensor window;
};

template <class Options>
Frames resolve(const char* op, std::int64_t n_fft, const Options& o, const Tensor& x) {
  ADJOINT_CHECK(n_fft >= 1, "{}: n_fft must be at least 1; got {}", op, n_fft);
  Frames f{n_fft, o.hop_length == 0 ? n_fft / 4 : o.hop_length, o.win_length == 0 ? n_fft : o.win_length, {}};
  ADJOINT_CHECK(f.hop >= 1, "{}: hop_length must be at least 1; got {} (n_fft {})", op, f.hop, n_fft);
  ADJOINT_CHECK(f.win_length >= 1 && f.win_length <= n_fft, "{}: win_length must lie in [1, n_fft]; got {}, n_fft {}",
                op, f.win_length, n_fft);
  const TensorOptions as{.dtype = x.dtype(), .device = x.device()};
  if (o.window.defined()) {
    ADJOINT_CHECK(o.window.shape() == Shape({f.win_length}) && is_floating_point(o.window.dtype()),
                  "{}: window must have the shape (win_length,) and be floating point; got {} of {}, win_length {}", op,
                  o.window.shape(), o.window.dtype(), f.win_length);
    f.window = o.window.to(x.dtype());
  } else if (f.win_length < n_fft) {
    f.window = Tensor::ones({f.win_length}, as);
  }
  if (f.win_length < n_fft) {
    const std::int64_t before = (n_fft - f.win_length) / 2;
    f.window = pad(f.window, {before, n_fft - f.win_length - before});
  }
  return f;
}

// All n bins from the first n / 2 + 1: the rest are conjugates, in reverse.
Tensor both_sides(const Tensor& half, std::int64_t n) {
  const Tensor shared = flip(half.narrow(-2, 1, (n + 1) / 2 - 1), {-2});
  return cat({half, stack({shared.select(-1, 0), -shared.select(-1, 1)}, -1)}, -2);
}

FFTNorm norm_of(bool normalized) { return normalized ? FFTNorm::kOrtho : FFTNorm::kBackward; }

}  // namespace

Tensor spectra(const char* op, const Tensor& x, std::int64_t n_fft, const StftOptions& options) {
  ADJOINT_CHECK(x.dim() >= 1 && x.dim() + 2 <= static_cast<std::int64_t>(kMaxRank),
                "{}: x must have 1 to {} axes; got {}", op, kMaxRank - 2, x.shape());
  const Frames f = resolve(op, n_fft, options, x);
  const std::int64_t around = options.center ? n_fft / 2 : 0;
  const Tensor signal = around > 0 ? pad(x, {around, around}, options.pad_mode) : x;
  ADJOINT_CHECK(signal.size(-1) >= n_fft, "{}: a frame of n_fft elements must fit into x; got n_fft {}, x {}", op,
                n_fft, x.shape());
  const Tensor frames = frame(signal, n_fft, f.hop);
  return rfft(f.window.defined() ? frames * f.window : frames, n_fft, norm_of(options.normalized));
}

Tensor magnitudes(const Tensor& spectra, bool squared) {
  return apply(magnitude_op, {spectra}, MagnitudeAttr{squared});
}

Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options) {
  const OpScope scope("stft");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) {
    return stft(full[0], n_fft, options);
  }
  check_floating("stft", x);
  const Tensor half = spectra("stft", widened(x), n_fft, options);
  const Tensor bins = options.onesided ? half : both_sides(half, n_fft);
  return bins.to(x.dtype()).transpose(-3, -2);
}

Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options) {
  const OpScope scope("istft");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) {
    return istft(full[0], n_fft, options);
  }
  check_floating("istft", x);
  const Tensor wide = widened(x);
  const Frames f = resolve("istft", n_fft, options, wide);
  const std::int64_t bins = options.onesided ? n_fft / 2 + 1 : n_fft;
  ADJOINT_CHECK(x.dim() >= 3 && x.size(-1) == 2 && x.size(-2) >= 1 && x.size(-3) == bins,
                "istft: x must have the shape (..., {}, frames, 2), with a frame at least, n_fft being {} and onesided "
                "{}; got {}",
                bins, n_fft, options.onesided, x.shape());
  ADJOINT_CHECK(f.hop <= f.win_length, "istft: hop_length must be at most win_length; got {}, {}", f.hop, f.win_length);
  ADJOINT_CHECK(options.length >= 0, "istft: length must not be negative; got {}", options.length);
  const std::int64_t count = x.size(-2), reached = n_fft + (count - 1) * f.hop, start = options.center ? n_fft / 2 : 0;
  const std::int64_t end = options.length > 0 ? start + options.length : reached - start;
  const std::int64_t known = std::min(end, reached) - start;
  ADJOINT_CHECK(known > 0, "istft: frames must reach the result; got x {}, n_fft {}, hop_length {}, center {}",
                x.shape(), n_fft, f.hop, options.center);
  const Tensor half = wide.transpose(-3, -2).narrow(-2, 0, n_fft / 2 + 1);
  const Tensor frames = irfft(half, n_fft, norm_of(options.normalized));
  const Tensor sum = overlap_add(f.window.defined() ? frames * f.window : frames, f.hop).narrow(-1, start, known);
  const Tensor window =
      f.window.defined() ? f.window : Tensor::ones({n_fft}, {.dtype = wide.dtype(), .device = wide.device()});
  const Tensor squares = overlap_add(square(window).expand({count, n_fft}), f.hop).narrow(0, start, known);
  const double least = [&] {
    const PauseTape pause;
    return -(-squares).max().item<double>();
  }();
  ADJOINT_CHECK(!(least < kLeastSquares),
                "istft: the squares of windows that overlap must add up to {} at least everywhere; got {}; use another "
                "window, a shorter hop_length, or center",
                kLeastSquares, least);
  const Tensor signal = sum / squares;
  return (end > reached ? embed(signal, -1, 0, end - start) : signal).to(x.dtype());
}

Tensor spectrogram(const Tensor& x, std::int64_t n_fft, const SpectrogramOptions& o) {
  const OpScope scope("spectrogram");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) {
    return spectrogram(full[0], n_fft, o);
  }
  check_floating("spectrogram", x);
  ADJOINT_CHECK(o.power > 0.0, "spectrogram: power must be positive; got {}", o.power);
  const Tensor wide = widened(x);
  const std::int64_t win_length = o.win_length == 0 ? n_fft : o.win_length;
  const Tensor window = o.window.defined() || win_length < 1
                            ? o.window
                            : hann_window(win_length, true, {.dtype = kFloat64, .device = x.device()});
  const Tensor half =
      spectra("spectrogram", wide, n_fft,
              {.hop_length = o.hop_length == 0 ? std::max<std::int64_t>(1, win_length / 2) : o.hop_length,
               .win_length = win_length,
               .window = window,
               .center = o.center,
               .pad_mode = o.pad_mode,
               .normalized = o.normalized});
  const Tensor base = magnitudes(half, o.power == 2.0);
  const Tensor values = o.power == 1.0 || o.power == 2.0 ? base : pow(base, o.power);
  const Tensor all = o.onesided ? values : cat({values, flip(values.narrow(-1, 1, (n_fft + 1) / 2 - 1), {-1})}, -1);
  return all.to(x.dtype()).transpose(-2, -1);
}

}  // namespace adjoint
