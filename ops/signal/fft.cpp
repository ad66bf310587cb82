#include <adjoint/ops/signal/fft.h>

#include <adjoint/core/autocast.h>
#include <adjoint/core/check.h>
#include <adjoint/core/op.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/signal/kernels.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoint {
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

// About 2.5 n log2(n) operations a row (Frigo, Johnson: "The design and implementation of FFTW3", 2005).
Cost fft_cost(Operands in, Operands out, const FftAttr& attr) {
  const auto n = static_cast<double>(attr.n);
  const double rows = static_cast<double>(std::min(in[0].numel(), out[0].numel())) / n;  // of the sequences
  return {.bytes = static_cast<double>((in[0].numel() + out[0].numel()) * element_size(in[0].dtype())),
          .flop = 2.5 * rows * n * std::log2(n)};
}

extern constinit const OpDef<FftAttr> irfft_op;

constinit const OpDef<FftAttr> rfft_op{.name = "rfft",
                                       .infer = spectrum_spec,
                                       .cpu = cpu::rfft,
                                       .cuda = ADJOINT_IF_CUDA(cuda::rfft),
                                       .mixed_precision = MixedPrecision::kFull,
                                       .cost = fft_cost,
                                       .vjp = {{{.rule = [](const Ctx<FftAttr>& c) {
                                         return apply(irfft_op, {c.grad}, c.attr);
                                       }}}}};

constinit const OpDef<FftAttr> irfft_op{.name = "irfft",
                                        .infer = sequence_spec,
                                        .cpu = cpu::irfft,
                                        .cuda = ADJOINT_IF_CUDA(cuda::irfft),
                                        .mixed_precision = MixedPrecision::kFull,
                                        .cost = fft_cost,
                                        .vjp = {{{.rule = [](const Ctx<FftAttr>& c) {
                                          return apply(rfft_op, {c.grad}, c.attr);
                                        }}}}};

// x with `extent` elements along `axis` (from the end): cut, or zeros behind.
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

void check_floating(const char* op, const Tensor& x) {
  check_defined(op, "x", x);
  ADJOINT_CHECK(is_floating_point(x.dtype()), "{}: x must be floating point; got {}; convert with to()", op, x.dtype());
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

}  // namespace adjoint
