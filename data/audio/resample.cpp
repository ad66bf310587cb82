// Resampling by a polyphase filter: of the taps of the filter at the common multiple of both rates, a result needs only
// those that meet a sample.
#include <adjoint/data/audio/audio.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace adjoint::data {
namespace {

/// scipy.signal.firwin(2 * half + 1, 1 / rate, window=("kaiser", 5.0)) * up: a low-pass filter of gain `up`.
std::vector<double> taps_of(std::int64_t half, std::int64_t rate, std::int64_t up) {
  constexpr double kBeta = 5.0;
  std::vector<double> taps(static_cast<std::size_t>(2 * half + 1));
  for (std::int64_t i = -half; i <= half; ++i) {
    const double x = std::numbers::pi * static_cast<double>(i) / static_cast<double>(rate);
    const double place = static_cast<double>(i) / static_cast<double>(half);
    const double window = std::cyl_bessel_i(0.0, kBeta * std::sqrt(1.0 - place * place));
    taps[static_cast<std::size_t>(i + half)] = (i == 0 ? 1.0 : std::sin(x) / x) * window;
  }
  const double scale = static_cast<double>(up) / std::accumulate(taps.begin(), taps.end(), 0.0);
  for (double& tap : taps) tap *= scale;
  return taps;
}

}  // namespace

Tensor resample(const Tensor& samples, std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kMaxRate = 1 << 20;
  ADJOINT_CHECK(from >= 1 && from <= kMaxRate && to >= 1 && to <= kMaxRate,
                "resample: rates must be from 1 to {} Hz; got {} and {}", kMaxRate, from, to);
  ADJOINT_CHECK(samples.defined(), "resample: samples must be defined");
  ADJOINT_CHECK(samples.dim() >= 1 && is_floating_point(samples.dtype()) && samples.device().is_cpu(),
                "resample: samples must be floating point (..., frames) on the CPU; got {} {} on {}", samples.dtype(),
                samples.shape(), samples.device());
  if (from == to) return samples.detach().clone();
  const std::int64_t common = std::gcd(from, to), up = to / common, down = from / common;
  const std::int64_t rate = std::max(up, down), half = 10 * rate, frames = samples.size(-1);
  ADJOINT_CHECK(frames <= (std::int64_t{1} << 40), "resample: samples must have at most 2^40 frames; got {}",
                samples.shape());
  const std::int64_t results = (frames * up + down - 1) / down;
  Shape shape = samples.shape();
  shape[shape.size() - 1] = results;
  const std::int64_t rows = frames > 0 ? samples.numel() / frames : 0;
  const std::vector<double> taps = taps_of(half, rate, up), in = samples.detach().to_vector<double>();
  std::vector<double> out(static_cast<std::size_t>(rows * results));
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* x = in.data() + row * frames;
    for (std::int64_t m = 0; m < results; ++m) {
      // Sample k is at k up, the result at m down; the filter reaches `half` to either side.
      const std::int64_t at = m * down;
      const std::int64_t first = at > half ? (at - half + up - 1) / up : 0,
                         last = std::min((at + half) / up, frames - 1);
      double sum = 0.0;
      for (std::int64_t k = first; k <= last; ++k) sum += x[k] * taps[static_cast<std::size_t>(at - k * up + half)];
      out[static_cast<std::size_t>(row * results + m)] = sum;
    }
  }
  return Tensor::from_vector(out, shape, {.dtype = kFloat64}).to(samples.dtype());
}

}  // namespace adjoint::data
