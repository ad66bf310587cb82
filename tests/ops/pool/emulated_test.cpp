// The kernels of pooling on the emulator, compared with the CPU's: values, places and gradients, bit for bit.
#include <cuda_runtime.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/ops/pool/pool.h>

// Functions that the library does not export.
void adjoint::fill(Tensor& dst, double value) { dst.fill_(value); }

// Threads of the emulator alternate.
inline long long atomicMax(long long* to, long long value) {
  const long long before = *to;
  if (value > before) *to = value;
  return before;
}

#include <adjoint/ops/pool/channels_last.cu>
#include <adjoint/ops/pool/cuda.cu>

#include <adjoint/tests/support/emulation/placed.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

struct Case {
  std::int32_t height, width, kernel, stride, padding, dilation = 1;
  bool ceil_mode = false;
  std::int64_t offset = 0;
};

/// The gradient of x in f(x), whose own is `grad`.
template <class F>
Tensor gradient_of(const Tensor& x, const Tensor& grad, const F& f) {
  const Tensor leaf = x.detach().requires_grad_();
  Tape tape;
  return tape.gradient((f(leaf) * grad).sum(), {leaf})[0];
}

void check(const Case& c, DType dtype) {
  SCOPED_TRACE(to_string(dtype) + " (" + std::to_string(c.height) + ", " + std::to_string(c.width) + ") kernel " +
               std::to_string(c.kernel) + " stride " + std::to_string(c.stride) + " padding " +
               std::to_string(c.padding) + " dilation " + std::to_string(c.dilation) + (c.ceil_mode ? " ceil" : "") +
               " at " + std::to_string(c.offset));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  cuda::emulated_seed = static_cast<std::uint64_t>(c.width + c.kernel);
  const Shape in{3, c.height, c.width};
  std::vector<double> values = integers(in.numel(), 3, 11);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 29 == 3) values[i] = std::nan("");
    if (i % 7 == 1) values[i] = -0.0;
    if (i > values.size() / 2) values[i] = i % 5 == 0 ? -kInfinity : values[i];
    if (i > 3 * values.size() / 4) values[i] = -kInfinity;
  }
  const auto attr_of = [&](const Shape& out, std::int32_t dilation) {
    const auto axis = [&](std::int32_t from, std::size_t at) {
      return PoolAxis{.in = from,
                      .out = static_cast<std::int32_t>(out[at]),
                      .kernel = c.kernel,
                      .stride = c.stride,
                      .padding = c.padding,
                      .dilation = dilation,
                      .by_stride = Divider(static_cast<std::uint32_t>(c.stride))};
    };
    return PoolAttr{.h = axis(c.height, 1), .w = axis(c.width, 2)};
  };

  const MaxPool2dParams params{.stride = c.stride,
                               .padding = c.padding,
                               .dilation = c.dilation,
                               .ceil_mode = c.ceil_mode};
  const Tensor x = placed(values, in, dtype, c.offset);
  const auto [maxima, places] = max_pool2d_with_indices(x, c.kernel, params);
  const Shape out = maxima.shape();
  const Tensor g = placed(reals(out.numel(), 5), out, dtype, c.offset);
  const Tensor sums = gradient_of(x, g, [&](const Tensor& leaf) { return max_pool2d(leaf, c.kernel, params); });
  const PoolAttr attr = attr_of(out, c.dilation);
  for (const DType width_of_places : {kInt32, kInt64}) {
    std::array got{unwritten(out, dtype, c.offset), Tensor::full(out, 99.0, {.dtype = width_of_places})};
    cuda::max_pool(std::array{x}, got, attr);
    expect_same_bits("maxima", got[0], maxima);
    expect_same_bits("places", got[1].to(kInt64), places);
    Tensor dx = unwritten(in, dtype, c.offset);
    cuda::max_pool_adjoint(std::array{g, got[1]}, dx, attr);
    expect_same_bits("gradients of maxima", dx, sums);
  }
  std::array alone{unwritten(out, dtype, c.offset), Tensor{}};
  cuda::max_pool(std::array{x}, alone, attr);
  expect_same_bits("maxima without places", alone[0], maxima);

  if (c.dilation > 1) return;
  for (const std::int64_t divisor : {0, 3}) {
    for (const bool counts_padding : {true, false}) {
      PoolAttr average = attr;
      average.divisor = divisor;
      average.counts_padding = counts_padding;
      const auto f = [&](const Tensor& t) {
        return avg_pool2d(t, c.kernel, {{}, c.stride, c.padding, c.ceil_mode, counts_padding, divisor});
      };
      // Whatever the order, sums of these and of their shares are exact.
      const Tensor z = placed(integers(in.numel(), 9, 6), in, dtype, c.offset);
      const Tensor shared = placed(integers(out.numel(), 3, 7), out, dtype, c.offset) * 36.0;
      Tensor y = unwritten(out, dtype, c.offset), dz = unwritten(in, dtype, c.offset);
      cuda::avg_pool(std::array{z}, y, average);
      expect_same_bits("means", y, f(z));
      cuda::avg_pool_adjoint(std::array{shared}, dz, average);
      expect_same_bits("gradients of means", dz, gradient_of(z, shared, f));
    }
  }
}

/// x (N, C, H, W) as contiguous (N, H, W, C).
Tensor in_memory_order(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous(); }

void check_channels_last(DType dtype, std::int64_t channels) {
  SCOPED_TRACE(to_string(dtype) + " " + std::to_string(channels));
  cuda::emulated_seed = static_cast<std::uint64_t>(channels);
  const Shape in{2, channels, 5, 7};
  const auto axis = [](std::int32_t from, std::int32_t to) {
    return PoolAxis{.in = from, .out = to, .kernel = 3, .stride = 2, .padding = 1, .by_stride = Divider(2)};
  };
  const PoolAttr attr{.h = axis(5, 3), .w = axis(7, 4), .channels = channels};
  const MaxPool2dParams params{.stride = 2, .padding = 1};
  const Tensor x = placed(integers(in.numel(), 9, 3), in, dtype, 0);
  const auto [maxima, places] = max_pool2d_with_indices(x, 3, params);
  const Tensor g = placed(integers(maxima.numel(), 3, 7), maxima.shape(), dtype, 0);
  const auto result = [&](const Tensor& like) { return unwritten(in_memory_order(like).shape(), dtype, 0); };

  std::array got{result(maxima), Tensor::full(in_memory_order(maxima).shape(), 99.0, {.dtype = kInt32})};
  cuda::max_pool(std::array{in_memory_order(x)}, got, attr);
  expect_same_bits("maxima", got[0], in_memory_order(maxima));
  expect_same_bits("places", got[1].to(kInt64), in_memory_order(places));
  Tensor dx = result(x);
  cuda::max_pool_adjoint(std::array{in_memory_order(g), got[1]}, dx, attr);
  const auto max = [&](const Tensor& leaf) { return max_pool2d(leaf, 3, params); };
  expect_same_bits("gradients of maxima", dx, in_memory_order(gradient_of(x, g, max)));

  const auto mean = [&](const Tensor& leaf) { return avg_pool2d(leaf, 3, {.stride = 2, .padding = 1}); };
  Tensor y = result(maxima), dz = result(x);
  cuda::avg_pool(std::array{in_memory_order(x)}, y, attr);
  expect_same_bits("means", y, in_memory_order(mean(x)));
  const Tensor shared = g * 36.0;  // shares of these are exact
  cuda::avg_pool_adjoint(std::array{in_memory_order(shared)}, dz, attr);
  expect_same_bits("gradients of means", dz, in_memory_order(gradient_of(x, shared, mean)));
}

/// x (N, C, D, H, W) as contiguous (N, D, H, W, C).
Tensor volume_in_memory_order(const Tensor& x) { return x.permute({0, 2, 3, 4, 1}).contiguous(); }

struct VolumeCase {
  Size3 in, kernel, stride, padding, dilation = 1;
};

void check_volume(const VolumeCase& c, DType dtype, std::int64_t channels) {
  SCOPED_TRACE(to_string(dtype) + " " + std::to_string(c.in.w) + " " + std::to_string(channels));
  cuda::emulated_seed = static_cast<std::uint64_t>(c.in.w + channels);
  const Shape in{2, channels, c.in.d, c.in.h, c.in.w};
  std::vector<double> values = integers(in.numel(), 9, 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 31 == 5 ? std::nan("") : values[i];
  const Tensor x = placed(values, in, dtype, 0), z = placed(integers(in.numel(), 9, 6), in, dtype, 0);
  const MaxPool3dParams params{.stride = c.stride, .padding = c.padding, .dilation = c.dilation};
  const auto max = [&](const Tensor& leaf) { return max_pool3d(leaf, c.kernel, params); };
  const auto mean = [&](const Tensor& leaf) {
    return avg_pool3d(leaf, c.kernel, {.stride = c.stride, .padding = c.padding});
  };
  const auto [maxima, places] = max_pool3d_with_indices(x, c.kernel, params);
  const Tensor g = placed(integers(maxima.numel(), 3, 7), maxima.shape(), dtype, 0);
  const Tensor shared = mean(z) * 0.0 + 216.0;  // shares of these are exact
  const auto attr_of = [&](const Tensor& result, const Size3& dilation) {
    const auto axis = [&](std::int64_t Size3::*of, std::int64_t at) {
      const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
      return PoolAxis{.in = narrow(c.in.*of),
                      .out = narrow(result.size(at)),
                      .kernel = narrow(c.kernel.*of),
                      .stride = narrow(c.stride.*of),
                      .padding = narrow(c.padding.*of),
                      .dilation = narrow(dilation.*of),
                      .by_stride = Divider(static_cast<std::uint32_t>(c.stride.*of))};
    };
    return PoolAttr{.axes = 3, .d = axis(&Size3::d, -3), .h = axis(&Size3::h, -2), .w = axis(&Size3::w, -1)};
  };
  for (const bool channels_last : {false, true}) {
    const auto laid = [&](const Tensor& t) { return channels_last ? volume_in_memory_order(t) : t; };
    const auto result = [&](const Tensor& like, DType of) { return unwritten(laid(like).shape(), of, 0); };
    PoolAttr attr = attr_of(maxima, c.dilation), average = attr_of(shared, 1);
    if (channels_last) attr.channels = average.channels = channels;
    for (const DType width_of_places : {kInt32, kInt64}) {
      std::array got{result(maxima, dtype), Tensor::full(laid(maxima).shape(), 99.0, {.dtype = width_of_places})};
      cuda::max_pool(std::array{laid(x)}, got, attr);
      expect_same_bits("maxima", got[0], laid(maxima));
      expect_same_bits("places", got[1].to(kInt64), laid(places));
      Tensor dx = result(x, dtype);
      cuda::max_pool_adjoint(std::array{laid(g), got[1]}, dx, attr);
      expect_same_bits("gradients of maxima", dx, laid(gradient_of(x, g, max)));
    }
    Tensor y = result(shared, dtype), dz = result(z, dtype);
    cuda::avg_pool(std::array{laid(z)}, y, average);
    expect_same_bits("means", y, laid(mean(z)));
    cuda::avg_pool_adjoint(std::array{laid(shared)}, dz, average);
    expect_same_bits("gradients of means", dz, laid(gradient_of(z, shared, mean)));
  }
}

TEST(PoolEmulated, OfVolumesIsTheCpus) {
  const VolumeCase cases[] = {
      {{3, 4, 16}, 2, 2, 0},  // rows of whole packs
      {{4, 5, 7}, 3, 2, 1},
      {{5, 3, 16}, {3, 1, 2}, {1, 2, 2}, {1, 0, 1}},
      {{2, 6, 8}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}},
  };
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    for (const VolumeCase& c : cases) {
      for (const std::int64_t channels : {std::int64_t{3}, std::int64_t{8}}) check_volume(c, dtype, channels);
    }
  }
  check_volume({{5, 4, 9}, {2, 2, 3}, {1, 2, 1}, {1, 1, 1}, {3, 2, 2}}, kFloat32, 4);
}

TEST(PoolEmulated, ChannelsLastIsTheCpus) {
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    for (const std::int64_t channels : {std::int64_t{3}, std::int64_t{16}}) check_channels_last(dtype, channels);
  }
}

TEST(PoolEmulated, IsTheCpus) {
  const Case cases[] = {
      // Computed in packs: rows of whole packs, also if the windows do not end with a pack.
      {6, 32, 2, 2, 0},
      {7, 48, 3, 2, 1},
      {5, 32, 3, 1, 1},
      {6, 16, 3, 2, 1},
      {9, 8, 2, 2, 0},
      // Not computed in packs: other widths, paddings, dilations, places in memory; a last window of padding alone.
      {5, 31, 2, 2, 0},
      {6, 32, 3, 2, 0},
      {6, 32, 3, 2, 1, 2},
      {6, 32, 2, 2, 1},
      {6, 32, 3, 3, 1},
      {5, 17, 3, 1, 1},
      {6, 32, 2, 2, 0, 1, false, 1},
      {6, 32, 3, 2, 1, 1, true},
      {6, 24, 5, 3, 2},
  };
  for (const DType dtype : {kBFloat16, kFloat32, kFloat16, kFloat64}) {
    for (const Case& c : cases) check(c, dtype);
  }
}

}  // namespace
}  // namespace adjoint::testing
