#include <adjoint/ops/signal/fft.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/signal/kernels.h>
#include <adjoint/ops/view/view.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace adjoint {

void check_floating(const char* op, const Tensor& x) {
  check_defined(op, "x", x);
  ADJOINT_CHECK(is_floating_point(x.dtype()), "{}: x must be floating point; got {}; convert with to()", op, x.dtype());
}

namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 30;

TensorSpec spectrum_spec(Operands in, const FftAttr& attr) {
  Shape shape = in[0].shape();
  shape[shape.size() - 1] = attr.bins();
  shape.push_back(2);
  return {shape, in[0].dtype()};
}

TensorSpec sequence_spec(Operands in, const FftAttr& attr) {
  Shape shape = in[0].shape();
  shape.erase(shape.size() - 1);
  shape[shape.size() - 1] = attr.n;
  return {shape, in[0].dtype()};
}

// About 2.5 n log2(n) operations per row (Frigo, Johnson: "The design and implementation of FFTW3", 2005).
Cost fft_cost(Operands in, Operands out, const FftAttr& attr) {
  const auto n = static_cast<double>(attr.n);
  const double rows = static_cast<double>(std::min(in[0].numel(), out[0].numel())) / n;  // of the sequences
  return {.bytes = static_cast<double>((in[0].numel() + out[0].numel()) * element_size(in[0].dtype())),
          .flop = 2.5 * rows * n * std::log2(n)};
}

// ---- ONNX.

// Each bin's count, times `scale`.
std::vector<double> bin_weights(const FftAttr& attr, double scale) {
  std::vector<double> weights(static_cast<std::size_t>(attr.bins()), attr.doubled ? 2.0 * scale : scale);
  weights.front() = scale;
  if (attr.n % 2 == 0) weights.back() = scale;
  return weights;
}

// ONNX Runtime's DFT loses digits for lengths that are not powers of two: errors are 2e-3 for a length of 1000. A
// product of matrices does not.
bool is_product(const FftAttr& attr) {
  constexpr std::int64_t kMost = 4096;
  return (attr.n & (attr.n - 1)) != 0 && attr.n < kMost;
}

// rfft's matrix (n, 2 bins), whose columns are pairs.
Tensor fft_matrix(const FftAttr& attr, DType dtype) {
  const std::vector<double> weights = bin_weights(attr, attr.scale);
  std::vector<double> matrix;
  for (std::int64_t t = 0; t < attr.n; ++t) {
    for (std::int64_t k = 0; k < attr.bins(); ++k) {
      const double angle = -2.0 * std::numbers::pi * static_cast<double>(t * k % attr.n) / static_cast<double>(attr.n);
      matrix.push_back(std::cos(angle) * weights[static_cast<std::size_t>(k)]);
      matrix.push_back(std::sin(angle) * weights[static_cast<std::size_t>(k)]);
    }
  }
  return Tensor::from_vector(matrix, {attr.n, 2 * attr.bins()}, {.dtype = dtype});
}

OnnxValue weighted_onnx(OnnxCall& call, OnnxValue spectrum, const FftAttr& attr, double scale) {
  const DType dtype = call.in[0].dtype();
  if (attr.doubled) {
    const Tensor weights = Tensor::from_vector(bin_weights(attr, scale), {attr.bins(), 1}, {.dtype = dtype});
    return call.add("Mul", {spectrum, call.constant(weights)});
  }
  return scale == 1.0 ? spectrum : call.add("Mul", {spectrum, call.number(scale, dtype)});
}

// DFT along the axis before the last of x, which has `rank` axes: DFT wants three at least.
OnnxValue dft_onnx(OnnxCall& call, OnnxValue x, std::int64_t rank, OnnxValue length, const char* kind) {
  if (rank == 2) x = call.add("Unsqueeze", {x, call.integers({0})});
  const std::int64_t axis = std::max<std::int64_t>(rank, 3) - 2;
  x = call.add("DFT", {x, length}, {{"axis", axis}, {kind, true}});
  return rank == 2 ? call.add("Squeeze", {x, call.integers({0})}) : x;
}

OnnxValue rfft_onnx(OnnxCall& call, const FftAttr& attr) {
  if (is_product(attr)) {
    const OnnxValue matrix = call.constant(fft_matrix(attr, call.in[0].dtype()));
    return call.reshape(call.add("MatMul", {call.operand(0), matrix}), call.out[0].shape());
  }
  const OnnxValue pairs = call.add("Unsqueeze", {call.operand(0), call.integers({-1})});
  return weighted_onnx(call, dft_onnx(call, pairs, call.in[0].dim() + 1, {}, "onesided"), attr, attr.scale);
}

// The real part of the transform of half a spectrum, where bins count for their conjugates, too.
OnnxValue irfft_onnx(OnnxCall& call, const FftAttr& attr) {
  if (is_product(attr)) {
    Shape shape = call.out[0].shape();
    shape[shape.size() - 1] = 2 * attr.bins();
    const Tensor matrix = fft_matrix(attr, call.in[0].dtype()).transpose(0, 1).contiguous();
    return call.add("MatMul", {call.reshape(call.operand(0), shape), call.constant(matrix)});
  }
  const OnnxValue half = weighted_onnx(call, call.operand(0), attr, attr.scale * static_cast<double>(attr.n));
  const OnnxValue pairs = dft_onnx(call, half, call.in[0].dim(), call.number(attr.n, kInt64), "inverse");
  return call.add("Gather", {pairs, call.number(0, kInt64)}, {{"axis", std::int64_t{-1}}});
}

extern constinit const OpDef<FftAttr> irfft_op;

constinit const OpDef<FftAttr> rfft_op{.name = "rfft",
                                       .infer = spectrum_spec,
                                       .cpu = cpu::rfft,
                                       .cuda = ADJOINT_IF_CUDA(cuda::rfft),
                                       .mixed_precision = MixedPrecision::kFull,
                                       .cost = fft_cost,
                                       .onnx = rfft_onnx,
                                       .vjp = {{{.rule = [](const Ctx<FftAttr>& c) {
                                         return apply(irfft_op, {c.grad}, c.attr);
                                       }}}}};

constinit const OpDef<FftAttr> irfft_op{.name = "irfft",
                                        .infer = sequence_spec,
                                        .cpu = cpu::irfft,
                                        .cuda = ADJOINT_IF_CUDA(cuda::irfft),
                                        .mixed_precision = MixedPrecision::kFull,
                                        .cost = fft_cost,
                                        .onnx = irfft_onnx,
                                        .vjp = {{{.rule = [](const Ctx<FftAttr>& c) {
                                          return apply(rfft_op, {c.grad}, c.attr);
                                        }}}}};

// x with `extent` elements along `axis` (from the end): cut, or padded with zeros at the end.
Tensor fitted(const Tensor& x, std::int64_t axis, std::int64_t extent) {
  const std::int64_t has = x.size(axis);
  if (has == extent) return x;
  if (has > extent) return x.narrow(axis, 0, extent);
  std::vector<std::int64_t> padding(static_cast<std::size_t>(-2 * axis), 0);
  padding.back() = extent - has;
  return pad(x, padding);
}

void check_length(const char* op, std::int64_t n, const Tensor& x) {
  ADJOINT_CHECK(n >= 1 && n <= kLongest, "{}: n must lie in [1, 2^30]; got {} for x {}", op, n, x.shape());
}

double scale_of(const char* op, FFTNorm norm, FFTNorm full, std::int64_t n) {
  check_enumerator(op, "FFTNorm", norm, FFTNorm::kForward);
  if (norm == FFTNorm::kOrtho) return 1.0 / std::sqrt(static_cast<double>(n));
  return norm == full ? 1.0 / static_cast<double>(n) : 1.0;
}

}  // namespace

Tensor rfft(const Tensor& x, std::int64_t n, FFTNorm norm) {
  const OpScope scope("rfft");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return rfft(full[0], n, norm);
  check_floating("rfft", x);
  ADJOINT_CHECK(x.dim() >= 1 && x.dim() < static_cast<std::int64_t>(kMaxRank), "rfft: x must have 1 to {} axes; got {}",
                kMaxRank - 1, x.shape());
  const std::int64_t length = n == 0 ? x.size(-1) : n;
  check_length("rfft", length, x);
  const FftAttr attr{length, scale_of("rfft", norm, FFTNorm::kForward, length), false};
  return apply(rfft_op, {fitted(widened(x), -1, length)}, attr).to(x.dtype());
}

Tensor irfft(const Tensor& x, std::int64_t n, FFTNorm norm) {
  const OpScope scope("irfft");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return irfft(full[0], n, norm);
  check_floating("irfft", x);
  ADJOINT_CHECK(x.dim() >= 2 && x.size(-1) == 2 && x.size(-2) >= 1,
                "irfft: x must have the shape (..., bins, 2), with a bin at least; got {}", x.shape());
  const std::int64_t length = n == 0 ? 2 * (x.size(-2) - 1) : n;
  check_length("irfft", length, x);
  const FftAttr attr{length, scale_of("irfft", norm, FFTNorm::kBackward, length), true};
  return apply(irfft_op, {fitted(widened(x), -2, attr.bins())}, attr).to(x.dtype());
}

namespace {

// {h, w} of rfft2 and irfft2; 0 means x's own extents.
Dims two_lengths(const char* op, const Tensor& x, const Dims& s) {
  ADJOINT_CHECK(s.empty() || s.size() == 2, "{}: s must be two lengths, or empty; got {} for x {}", op, s, x.shape());
  return s.empty() ? Dims{0, 0} : s;
}

// The spectrum of n real numbers from its first half (..., n / 2 + 1, 2): the other half is its conjugates, backwards.
Tensor whole_spectrum(const Tensor& half, std::int64_t n, const Tensor& conjugate) {
  const std::int64_t left = n - half.size(-2);
  return left == 0 ? half : cat({half, flip(half.narrow(-2, 1, left), {-2}) * conjugate}, -2);
}

// The transform of pairs (..., n, 2) along the axis before the last, times `scale`: that of the real parts plus i times
// that of the imaginary ones. The inverse is the conjugate of the conjugate's transform.
Tensor fft_of_pairs(const Tensor& x, bool inverse, double scale) {
  const std::int64_t n = x.size(-2);
  const Tensor conjugate = Tensor::from_vector<double>({1.0, -1.0}, {2}, x.options());
  const Tensor given = inverse ? x * conjugate : x;
  const auto spectrum = [&](std::int64_t part) { return whole_spectrum(rfft(given.select(-1, part)), n, conjugate); };
  const Tensor a = spectrum(0), b = spectrum(1);
  const Tensor turned = stack({b.select(-1, 1) * -1.0, b.select(-1, 0)}, -1);
  const Tensor sum = a + turned, result = inverse ? sum * conjugate : sum;
  return scale == 1.0 ? result : result * scale;
}

}  // namespace

Tensor rfft2(const Tensor& x, const Dims& s, FFTNorm norm) {
  const OpScope scope("rfft2");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return rfft2(full[0], s, norm);
  check_floating("rfft2", x);
  ADJOINT_CHECK(x.dim() >= 2 && x.dim() < static_cast<std::int64_t>(kMaxRank),
                "rfft2: x must have 2 to {} axes; got {}", kMaxRank - 1, x.shape());
  const Dims lengths = two_lengths("rfft2", x, s);
  const std::int64_t height = lengths[0] == 0 ? x.size(-2) : lengths[0];
  check_length("rfft2", height, x);
  const Tensor rows = rfft(fitted(widened(x), -2, height), lengths[1], norm).transpose(-3, -2);
  return fft_of_pairs(rows, false, scale_of("rfft2", norm, FFTNorm::kForward, height)).transpose(-3, -2).to(x.dtype());
}

Tensor irfft2(const Tensor& x, const Dims& s, FFTNorm norm) {
  const OpScope scope("irfft2");
  if (const detail::AutocastCall full(MixedPrecision::kFull, {x}); full) return irfft2(full[0], s, norm);
  check_floating("irfft2", x);
  ADJOINT_CHECK(x.dim() >= 3 && x.size(-1) == 2 && x.size(-2) >= 1,
                "irfft2: x must have the shape (..., H, bins, 2), with a bin at least; got {}", x.shape());
  const Dims lengths = two_lengths("irfft2", x, s);
  const std::int64_t height = lengths[0] == 0 ? x.size(-3) : lengths[0];
  const std::int64_t width = lengths[1] == 0 ? 2 * (x.size(-2) - 1) : lengths[1];
  check_length("irfft2", height, x);
  check_length("irfft2", width, x);
  // Only the columns that the rows need are transformed.
  const Tensor bins = fitted(fitted(widened(x), -3, height), -2, width / 2 + 1).transpose(-3, -2);
  const double scale = scale_of("irfft2", norm, FFTNorm::kBackward, height);
  return irfft(fft_of_pairs(bins, true, scale).transpose(-3, -2), width, norm).to(x.dtype());
}

}  // namespace adjoint
