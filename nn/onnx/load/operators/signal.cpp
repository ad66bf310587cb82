// ONNX's sequences, windows and Fourier transforms. Complex numbers are a last axis of 2.
#include <adjoint/core/base/check.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/signal/fft.h>
#include <adjoint/ops/signal/frame.h>
#include <adjoint/ops/signal/window.h>
#include <adjoint/ops/view/view.h>

#include <cmath>

namespace adjoint::nn::detail {
namespace {

// ---- Made tensors.

OnnxResults range(const OnnxArgs& x) {
  return {Tensor::arange(x[0].item(), x[1].item(), x[2].item(), {.dtype = x[0].dtype()})};
}

DType output_dtype(const OnnxArgs& x) {
  return dtype_of_onnx(x.integer("output_datatype", 1), x.node.type + " node '" + x.node.name + "'");
}

template <Tensor (*kWindow)(std::int64_t, bool, const TensorOptions&)>
OnnxResults window(const OnnxArgs& x) {
  return {kWindow(x.host_integer(0), x.integer("periodic", 1) != 0, {.dtype = kFloat64}).to(output_dtype(x))};
}
Tensor exact_hamming_window(std::int64_t length, bool periodic, const TensorOptions& options) {
  return hamming_window(length, periodic, 25.0 / 46.0, 21.0 / 46.0, options);
}

// (dft_length / 2 + 1, num_mel_bins): triangles whose corners are bins, evenly spaced in mel and rounded down.
OnnxResults mel_weights(const OnnxArgs& x) {
  const std::int64_t filters = x.host_integer(0), length = x.host_integer(1), rate = x.host_integer(2);
  if (filters < 1 || length < 1 || rate < 1)
    x.refuse(fmt::format("its integers must be positive; got {}, {} and {}", filters, length, rate));
  const auto mel = [&](std::size_t i) { return 2595.0 * std::log10(1.0 + double{x[i].item()} / 700.0); };
  const double low = mel(3), step = (mel(4) - low) / static_cast<double>(filters + 2);
  const TensorOptions options{.dtype = kFloat64};
  const Tensor hertz = 700.0 * (pow(10.0, (Tensor::arange(filters + 2, options) * step + low) / 2595.0) - 1.0);
  const Tensor corners = floor(hertz * static_cast<double>(length + 1) / static_cast<double>(rate));
  const Tensor left = corners.narrow(0, 0, filters), middle = corners.narrow(0, 1, filters);
  const Tensor right = corners.narrow(0, 2, filters), bin = Tensor::arange(length / 2 + 1, options).unsqueeze(1);
  const Tensor rising = where(middle == left, 1.0, (bin - left) / (middle - left));
  const Tensor falling = (right - bin) / (right - middle);
  const Tensor weights =
      where((middle <= bin) & (bin < right), falling, where((left <= bin) & (bin <= middle), rising, 0.0));
  return {weights.to(output_dtype(x))};
}

// ---- Fourier transforms.

// (1, -1), which conjugates complex numbers like x.
Tensor conjugation(const Tensor& x) { return Tensor::from_vector({1.F, -1.F}, {2}).to(x); }

// (..., L) -> (..., n, 2), or its first n / 2 + 1 bins.
Tensor transformed_real(const Tensor& x, std::int64_t n, bool onesided) {
  Tensor half = rfft(x, n);
  if (onesided) return half;
  const Tensor others = flip(half.narrow(-2, 1, (n - 1) / 2), -2) * conjugation(half);
  return cat({half, others}, -2);
}
// z (..., L, 2) or (..., L, 1).
Tensor transformed(const Tensor& z, std::int64_t n, bool onesided) {
  Tensor real = transformed_real(z.select(-1, 0), n, onesided);
  if (z.size(-1) == 1) return real;
  const Tensor imaginary = transformed_real(z.select(-1, 1), n, onesided);
  return real - flip(imaginary, -1) * conjugation(imaginary);  // real + i imaginary
}

void check_numbers(const OnnxArgs& args, bool onesided) {
  const Tensor& x = args[0];
  if (x.dim() < 2 || (x.size(-1) != 1 && x.size(-1) != 2))
    args.refuse(fmt::format("its input's last axis must be of 1 or 2 elements; got {}", x.shape()));
  if (onesided && x.size(-1) == 2) args.refuse("onesided must be 0 for complex numbers, whose other half differs");
}

OnnxResults fourier_transform(const OnnxArgs& args) {
  const bool inverse = args.integer("inverse", 0) != 0, onesided = args.integer("onesided", 0) != 0;
  check_numbers(args, onesided);
  if (inverse && onesided) args.refuse("onesided must be 0 for an inverse transform");
  const Tensor& x = args[0];
  const auto rank = x.shape().size();
  const auto axis = static_cast<std::int64_t>(resolve_axis("dft", args.integer("axis", 1), rank));
  if (axis == x.dim() - 1) args.refuse("its axis must not be the last, of real and imaginary parts");
  const std::int64_t n = args.has(1) ? args.host_integer(1) : x.size(axis);
  if (n < 1) args.refuse(fmt::format("its length must be positive; got {}", n));
  Tensor z = widened(x).movedim(axis, -2);
  if (inverse && z.size(-1) == 2) z = z * conjugation(z);
  z = transformed(z, n, onesided);
  if (inverse) z = z * conjugation(z) / static_cast<double>(n);
  return {z.movedim(-2, axis).to(x.dtype())};
}

OnnxResults short_time_fourier_transform(const OnnxArgs& args) {
  const bool onesided = args.integer("onesided", 1) != 0;
  check_numbers(args, onesided);
  const Tensor signal = widened(args[0]);
  if (!args.has(2) && !args.has(3)) args.refuse("it must have a window or a frame_length");
  const std::int64_t n = args.has(3) ? args.host_integer(3) : args[2].numel();
  if (args.has(2) && args[2].shape() != Shape{n})
    args.refuse(fmt::format("its window must have the frame's length {}; got {}", n, args[2].shape()));
  Tensor frames = frame(signal.movedim(-2, -1), n, args.host_integer(1));  // (batch, parts, frames, n)
  if (args.has(2)) frames = frames * widened(args[2]);
  return {transformed(frames.movedim(-3, -1), n, onesided).to(args[0].dtype())};
}

constexpr OnnxOperator kSignalOperators[] = {
    {.type = "BlackmanWindow", .run = window<blackman_window>, .attributes = "output_datatype periodic", .settings = 1},
    {.type = "DFT", .run = fourier_transform, .attributes = "axis inverse onesided", .settings = 2},
    {.type = "HammingWindow",
     .run = window<exact_hamming_window>,
     .attributes = "output_datatype periodic",
     .settings = 1},
    {.type = "HannWindow", .run = window<hann_window>, .attributes = "output_datatype periodic", .settings = 1},
    {.type = "MelWeightMatrix", .run = mel_weights, .attributes = "output_datatype", .settings = 31},
    {.type = "Range", .run = range, .settings = 7},
    {.type = "STFT", .run = short_time_fourier_transform, .attributes = "onesided", .settings = 10, .buffers = 4},
};

}  // namespace

std::span<const OnnxOperator> onnx_signal_operators() { return kSignalOperators; }

}  // namespace adjoint::nn::detail
