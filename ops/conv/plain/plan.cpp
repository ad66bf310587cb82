// The model counts microseconds of an H100, fitted to bench/results/candidates.tsv; choices compare clocks.
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/plain/plan.h>

#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr double kClocks = 1755;  // a microsecond
constexpr double kEmptyMicroseconds = 6;
constexpr double kTermMicroseconds = 0.1;      // of a thread's sum, one after another
constexpr double kThreadMicroseconds = 16e-6;  // each thread's begin and stores
constexpr double kProductMicroseconds = 2e-6;

constexpr double kOthers = 14;            // the least that others were seen to take where this one took less
constexpr std::int64_t kMostSources = 4;  // of more channels a sum's loads wait for each other
constexpr std::int64_t kFewResults = 4;   // as many are left to the kernels for few channels

}  // namespace

double plain_clocks(const ConvGeometry& g, bool transposed) {
  const Extent2& result = transposed ? g.image : g.feature;
  const std::int64_t channels = transposed ? g.image_channels_per_group() : g.feature_channels_per_group();
  const std::int64_t sources = transposed ? g.feature_channels_per_group() : g.image_channels_per_group();
  const std::int64_t taps =
      transposed ? ceil_div(g.kernel[0], g.stride[0]) * ceil_div(g.kernel[1], g.stride[1]) : g.taps();
  // Threads of the last block that have no position wait for the others.
  const double threads = static_cast<double>(ceil_div(g.batch * result[0] * result[1], kPlainThreads) * kPlainThreads) *
                         static_cast<double>(g.groups * (channels == 1 ? 1 : ceil_div(channels, kPlainChannels)));
  const double terms = static_cast<double>(sources * taps);
  return kClocks * (kEmptyMicroseconds + kTermMicroseconds * terms +
                    threads * (kThreadMicroseconds + kProductMicroseconds * terms));
}

bool plain_pays(const ConvGeometry& g, bool transposed) {
  const std::int64_t channels = transposed ? g.image_channels : g.feature_channels;
  const std::int64_t sources = transposed ? g.feature_channels : g.image_channels;
  return g.groups == 1 && sources <= kMostSources && channels > kFewResults &&
         plain_clocks(g, transposed) < kClocks * kOthers;
}

}  // namespace adjoint::cuda
