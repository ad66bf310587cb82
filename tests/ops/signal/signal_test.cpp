// Signal cases that the registry of operators has no form for: every length, rows that must not affect each other,
// large sizes, round trips.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/signal/fft.h>
#include <adjoint/ops/signal/frame.h>
#include <adjoint/ops/signal/loss.h>
#include <adjoint/ops/signal/stft.h>
#include <adjoint/ops/signal/window.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

// Bins of the definition, real and imaginary parts in turn.
std::vector<double> definition(const std::vector<double>& x) {
  const std::size_t n = x.size();
  std::vector<double> bins;
  for (std::size_t k = 0; k <= n / 2; ++k) {
    std::complex<double> sum = 0;
    for (std::size_t t = 0; t < n; ++t) {
      sum += x[t] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * t % n) / static_cast<double>(n));
    }
    bins.push_back(sum.real());
    bins.push_back(sum.imag());
  }
  return bins;
}

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype = kFloat64) {
  return Tensor::from_vector(testing::reals(shape.numel(), seed), shape, {.dtype = kFloat64}).to(dtype);
}

TEST(Fft, IsTheDefinitionForEveryLength) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 1; n <= 66; ++n) lengths.push_back(n);
  for (const std::int64_t n : {97, 121, 128, 210, 256, 338, 1000, 1024}) lengths.push_back(n);
  for (const std::int64_t n : lengths) {
    SCOPED_TRACE(n);
    const Tensor x = noise({n}, 1);
    const std::vector<double> bins = definition(x.to_vector<double>());
    expect_near("float64", rfft(x), bins, 1e-12);
    expect_near("float32", rfft(x.to(kFloat32)), bins, 2e-5);
    expect_near("back", irfft(rfft(x), n), x.to_vector<double>(), 1e-13);
    expect_near("back in float32", irfft(rfft(x.to(kFloat32)), n), x.to_vector<double>(), 1e-6);
    // A real sequence's bins 0 and n / 2 are real, and others' imaginary parts there are not read.
    EXPECT_EQ(rfft(x).select(0, 0).select(0, 1).item<double>(), 0.0);
    Tensor with_more = rfft(x);
    with_more.select(0, 0).select(0, 1).fill_(3.0);
    if (n % 2 == 0) with_more.select(0, -1).select(0, 1).fill_(-2.0);
    expect_same_bits("imaginary parts", irfft(with_more, n), irfft(rfft(x), n));
  }
}

// Lengths with large prime factors, of each way that they are cut: prime, twice a prime, a product of two, a square,
// and two that are next to the border.
TEST(Fft, TakesNoLongerForPrimes) {
  for (const std::int64_t n : {61, 67, 122, 134, 521, 1042, 4099, 1021 * 13, 317 * 317, 100003, 2 * 100003}) {
    SCOPED_TRACE(n);
    const Tensor x = noise({2, n}, 3);
    const Tensor bins = rfft(x), bins32 = rfft(x.to(kFloat32));
    const std::vector<double> values = x.to_vector<double>(), found = bins.to_vector<double>(),
                              found32 = bins32.to_vector<double>();
    const auto size = static_cast<std::size_t>(n), count = size / 2 + 1;
    const double scale = std::sqrt(static_cast<double>(n));
    for (const std::size_t row : {0U, 1U}) {
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, count / 3, count - 2, count - 1}) {
        std::complex<double> sum = 0;
        for (std::size_t t = 0; t < size; ++t) {
          const double turns = static_cast<double>(k * t % size) / static_cast<double>(n);
          sum += values[row * size + t] * std::polar(1.0, -2 * std::numbers::pi * turns);
        }
        const std::size_t at = 2 * (row * count + k);
        EXPECT_NEAR(found[at], sum.real(), 2e-14 * scale) << k;
        EXPECT_NEAR(found[at + 1], sum.imag(), 2e-14 * scale) << k;
        EXPECT_NEAR(found32[at], sum.real(), 2e-6 * scale) << k;
        EXPECT_NEAR(found32[at + 1], sum.imag(), 2e-6 * scale) << k;
      }
    }
    expect_near("back", irfft(bins, n), values, 1e-13);
    expect_near("back in float32", irfft(bins32, n), values, 4e-6);
    expect_same_bits("a row alone", rfft(x.narrow(0, 1, 1)), bins.narrow(0, 1, 1));
  }
}

TEST(Fft, GradientsOfPrimesAreTheAdjoints) {
  for (const std::int64_t n : {67, 134, 4099}) {
    const Tensor x = noise({n}, 4).requires_grad_();
    Tape tape;
    const Tensor bins = rfft(x), weights = noise(bins.shape(), 5);
    const Tensor gradient = tape.gradient((bins * weights).sum(), {x})[0];
    const Tensor other = noise({n}, 6);
    const PauseTape pause;
    EXPECT_NEAR((gradient * other).sum().item<double>(), (rfft(other) * weights).sum().item<double>(),
                1e-11 * static_cast<double>(n));
  }
}

TEST(Fft, KeepsRowsApart) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const std::int64_t n : {6, 9, 64}) {
      Tensor x = noise({7, n}, 2, dtype);
      const Tensor bins = rfft(x), back = irfft(bins, n);
      for (std::int64_t row = 0; row < 7; ++row) {
        expect_same_bits("row", rfft(x.select(0, row)), bins.select(0, row).contiguous());
        expect_same_bits("row", irfft(bins.select(0, row), n), back.select(0, row).contiguous());
      }
      x.select(0, 3).fill_(std::numeric_limits<double>::quiet_NaN());
      for (const std::int64_t row : {2, 4}) {
        expect_same_bits("beside NaN", rfft(x).select(0, row).contiguous(), bins.select(0, row).contiguous());
      }
    }
  }
}

TEST(Signal, DoesNotDependOnThreads) {
  const int threads = num_threads();
  const Tensor x = noise({3, 70000}, 3, kFloat32);
  const StftOptions options{.hop_length = 128, .window = hann_window(512)};
  const auto run = [&] {
    const Tensor bins = stft(x, 512, options);
    return std::vector<Tensor>{bins, istft(bins, 512, {.hop_length = 128, .window = options.window}),
                               overlap_add(frame(x, 512, 100), 100)};
  };
  set_num_threads(1);
  const std::vector<Tensor> one = run();
  set_num_threads(4);
  const std::vector<Tensor> four = run();
  set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) expect_same_bits("threads", four[i], one[i]);
}

TEST(Signal, ComesBackFromItsSpectra) {
  const Tensor x = noise({2, 3, 3000}, 4);
  for (const std::int64_t n_fft : {256, 300, 255}) {
    for (const bool normalized : {false, true}) {
      for (const bool onesided : {false, true}) {
        const Tensor window = hamming_window(200, true, 0.54, 0.46, {.dtype = kFloat64});
        const Tensor bins = stft(
            x, n_fft,
            {.hop_length = 50, .win_length = 200, .window = window, .normalized = normalized, .onesided = onesided});
        const Tensor back = istft(bins, n_fft,
                                  {.hop_length = 50,
                                   .win_length = 200,
                                   .window = window,
                                   .normalized = normalized,
                                   .onesided = onesided,
                                   .length = 3000});
        expect_near("back", back, x.to_vector<double>(), 1e-12);
      }
    }
  }
}

TEST(Signal, AddsFramesUpInLongSignals) {
  const Tensor x = Tensor::from_vector(testing::integers(50000, 5, 5), {50000});
  // Ones, framed and added up, count the frames over an element.
  const Tensor counts = overlap_add(frame(Tensor::ones({50000}), 300, 70), 70, 50000);
  expect_same_bits("frames", overlap_add(frame(x, 300, 70), 70, 50000), x * counts);
}

TEST(Signal, LossesOfRealSizes) {
  const Tensor target = noise({2, 8192}, 6, kFloat32);
  Tensor input = noise({2, 8192}, 7, kFloat32).requires_grad_();
  EXPECT_EQ(multi_resolution_stft_loss(target, target).item<float>(), 0.0F);
  EXPECT_EQ(mel_loss(target, target).item<float>(), 0.0F);
  Tape tape;
  const Tensor loss = multi_resolution_stft_loss(input, target) + mel_loss(input, target);
  EXPECT_GT(loss.item<float>(), 0.1F);
  tape.backward(loss);
  PauseTape pause;
  EXPECT_TRUE(std::isfinite(input.grad().sum().item<float>()));
  const Tensor stepped = input.detach() - input.grad() * (0.1 / square(input.grad()).sum().item<float>());
  EXPECT_LT((multi_resolution_stft_loss(stepped, target) + mel_loss(stepped, target)).item<float>(),
            loss.item<float>());
  // In 16 bits everything but operands and result is float32.
  const Tensor low = input.detach().to(kFloat16), other = target.to(kFloat16);
  expect_same_bits("float16", mel_loss(low, other), mel_loss(low.to(kFloat32), other.to(kFloat32)).to(kFloat16));
}

TEST(Signal, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  for (const auto& [dtype, tolerance] : {std::pair{kFloat32, 5e-5}, {kFloat64, 1e-12}}) {
    // More lengths than plans are kept for, and rows that begin at odd elements.
    for (std::int64_t n = 1; n <= 70; ++n) {
      SCOPED_TRACE(n);
      const Tensor x = noise({5 * n + 1}, 8, dtype).narrow(0, 1, 5 * n).reshape({5, n});
      const Tensor there = noise({5 * n + 1}, 8, dtype).to(kCUDA).narrow(0, 1, 5 * n).reshape({5, n});
      expect_near("rfft", rfft(there).to(kCPU), rfft(x).to_vector<double>(), tolerance);
      expect_near("irfft", irfft(rfft(there), n).to(kCPU), x.to_vector<double>(), tolerance);
      const Tensor bins = rfft(x).to(kCUDA), before = bins.clone();
      irfft(bins, n);
      expect_same_bits("operand", bins.to(kCPU), before.to(kCPU));
    }
    const Tensor x = noise({2, 30000}, 9, dtype), there = x.to(kCUDA);
    const Tensor window = hann_window(600, true, {.dtype = dtype}), window_there = window.to(kCUDA);
    expect_near("window", hann_window(600, true, {.dtype = dtype, .device = kCUDA}).to(kCPU),
                window.to_vector<double>(), tolerance);
    const Tensor bins = stft(x, 1024, {.hop_length = 120, .win_length = 600, .window = window});
    const Tensor bins_there = stft(there, 1024, {.hop_length = 120, .win_length = 600, .window = window_there});
    expect_near("stft", bins_there.to(kCPU), bins.to_vector<double>(), tolerance);
    const IstftOptions back{.hop_length = 120, .win_length = 600, .window = window_there, .length = 30000};
    expect_near("istft", istft(bins_there, 1024, back).to(kCPU), x.to_vector<double>(), tolerance);
    expect_same_bits("again", istft(bins_there, 1024, back).to(kCPU), istft(bins_there, 1024, back).to(kCPU));
  }
}

TEST(Spectrogram, OfBothSidesMirrorsEvenAndOddLengths) {
  const Tensor x = Tensor::from_vector<double>({1, -2, 4, 3, 0.5, -1, 2, 5, 1, -3, 2, 1}, {12}, {.dtype = kFloat64});
  for (const std::int64_t n : {4, 5, 7, 8}) {
    const Tensor both = spectrogram(x, n, {.onesided = false}), half = spectrogram(x, n);
    ASSERT_EQ(both.size(0), n);
    for (std::int64_t bin = 0; bin < n; ++bin) {
      EXPECT_EQ(both.select(0, bin).to_vector<double>(), half.select(0, std::min(bin, n - bin)).to_vector<double>());
    }
  }
}

}  // namespace
}  // namespace adjoint
