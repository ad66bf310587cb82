// Convolutions in chunks against those of the whole sequence.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;

// Lengths from 0 to `most` that add up to `total`.
std::vector<std::int64_t> random_chunks(std::int64_t total, std::int64_t most, std::mt19937& random) {
  std::vector<std::int64_t> lengths;
  std::int64_t left = total;
  while (left > 0) {
    lengths.push_back(std::min<std::int64_t>(left, static_cast<std::int64_t>(random() % (most + 1))));
    left -= lengths.back();
  }
  lengths.push_back(0);
  return lengths;
}

// The results of the chunks and of flush(), joined; checks after each chunk that their number agrees with latency().
template <class Stream, class Due>
Tensor in_chunks(Stream& stream, const Tensor& x, const std::vector<std::int64_t>& lengths, const Due& due) {
  std::vector<Tensor> results;
  std::int64_t at = 0, came = 0;
  for (const std::int64_t length : lengths) {
    results.push_back(stream(x.narrow(-1, at, length)));
    at += length;
    came += results.back().size(-1);
    EXPECT_EQ(came, std::max<std::int64_t>(0, due(at))) << "after " << at << " inputs";
  }
  results.push_back(stream.flush());
  return cat(results, -1);
}

std::int64_t floor_divided(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

Tensor in_chunks(const Conv1d& layer, const Activation& activation, const Tensor& x,
                 const std::vector<std::int64_t>& lengths) {
  StreamingConv1d stream(layer, activation);
  return in_chunks(stream, x, lengths,
                   [&](std::int64_t n) { return floor_divided(n - stream.latency(), layer.options().stride); });
}
Tensor in_chunks(const ConvTranspose1d& layer, const Activation& activation, const Tensor& x,
                 const std::vector<std::int64_t>& lengths) {
  StreamingConvTranspose1d stream(layer, activation);
  return in_chunks(stream, x, lengths,
                   [&](std::int64_t n) { return n == 0 ? 0 : n * layer.options().stride - stream.latency(); });
}

template <class Layer>
void fill_with_integers(Layer& layer, std::uint64_t seed) {
  PauseTape pause;
  for (Tensor parameter : layer.parameters()) {
    parameter.copy_(Tensor::from_vector(testing::integers(parameter.numel(), 3, seed++), parameter.shape()));
  }
}

std::vector<Conv1dOptions> conv_geometries() {
  std::vector<Conv1dOptions> all;
  for (const std::int64_t kernel : {1, 2, 3, 5}) {
    for (const std::int64_t stride : {1, 2, 3, 7}) {
      for (const std::int64_t padding : {0, 1, 4}) {
        for (const std::int64_t dilation : {1, 3}) {
          const std::int64_t groups = (kernel + stride + padding) % 2 + 1;
          all.push_back({.kernel_size = kernel,
                         .stride = stride,
                         .padding = padding,
                         .dilation = dilation,
                         .groups = groups,
                         .bias = padding != 1});
        }
      }
    }
  }
  return all;
}

std::vector<ConvTranspose1dOptions> transposed_geometries() {
  std::vector<ConvTranspose1dOptions> all;
  for (const Conv1dOptions& o : conv_geometries()) {
    for (const std::int64_t output_padding : {0, 1, 2}) {
      if (output_padding >= std::max(o.stride, o.dilation)) continue;
      all.push_back({.kernel_size = o.kernel_size,
                     .stride = o.stride,
                     .padding = o.padding,
                     .output_padding = output_padding,
                     .dilation = o.dilation,
                     .groups = o.groups,
                     .bias = o.bias});
    }
  }
  return all;
}

std::string describe(const Module& layer, const std::vector<std::int64_t>& lengths) {
  return to_string(layer) + " in chunks of " + [&] {
    std::string text;
    for (const std::int64_t length : lengths) text += std::to_string(length) + " ";
    return text;
  }();
}

// Small integers are exact in any order; the last chunks of a long sequence alone meet the steady state.
template <class Layer>
void expect_exact(Layer layer) {
  fill_with_integers(layer, 1);
  std::mt19937 random(7);
  for (const std::int64_t total : {16, 41}) {
    const Tensor x = Tensor::from_vector(testing::integers(2 * 4 * total, 4, 9), {2, 4, total});
    for (const std::int64_t most : {1, 4, 30}) {
      const std::vector<std::int64_t> lengths = random_chunks(total, most, random);
      SCOPED_TRACE(describe(layer, lengths));
      expect_same_bits("chunks", in_chunks(layer, {}, x, lengths), layer(x));
    }
  }
}

TEST(Streaming, IsTheWholeConvolution) {
  for (const Conv1dOptions& options : conv_geometries()) expect_exact(Conv1d(4, 6, options));
}

TEST(Streaming, IsTheWholeTransposedConvolution) {
  for (const ConvTranspose1dOptions& options : transposed_geometries()) expect_exact(ConvTranspose1d(4, 6, options));
}

template <class Layer>
void expect_within_rounding(Layer layer, DType dtype, double tolerance) {
  layer.to(dtype);
  std::mt19937 random(3);
  const Tensor x = Tensor::from_vector(testing::reals(3 * 4 * 60, 5), {3, 4, 60}).to(dtype);
  const std::vector<std::int64_t> lengths = random_chunks(60, 9, random);
  for (const Activation& activation : {Activation{}, Activation::leaky_relu(0.1), Activation::gelu()}) {
    const Tensor chunks = in_chunks(layer, activation, x, lengths);
    EXPECT_EQ(chunks.dtype(), dtype);
    testing::expect_near("chunks", chunks, layer.activated(x, activation).template to_vector<double>(), tolerance);
    expect_same_bits("again", in_chunks(layer, activation, x, lengths), chunks);
  }
}

TEST(Streaming, RoundsAsTheWholeDoes) {
  for (const auto& [dtype, tolerance] :
       {std::pair{kFloat64, 1e-12}, {kFloat32, 1e-5}, {kBFloat16, 1e-2}, {kFloat16, 2e-3}}) {
    SCOPED_TRACE(to_string(dtype));
    expect_within_rounding(Conv1d(4, 6, {.kernel_size = 7, .stride = 2, .padding = 3, .dilation = 2}), dtype,
                           tolerance);
    expect_within_rounding(ConvTranspose1d(4, 2, {.kernel_size = 16, .stride = 8, .padding = 4}), dtype, tolerance);
  }
}

TEST(Streaming, TakesSequencesOneAfterTheOther) {
  ConvTranspose1d up(2, 3, {.kernel_size = 5, .stride = 2, .padding = 1, .output_padding = 1});
  Conv1d down(2, 3, {.kernel_size = 5, .stride = 2, .padding = 1});
  StreamingConvTranspose1d ups(up);
  StreamingConv1d downs(down);
  const Tensor x = Tensor::from_vector(testing::reals(2 * 12, 1), {2, 12});  // without a batch axis
  for (int sequence = 0; sequence < 2; ++sequence) {
    ups(x);
    downs(x);
    ups.reset();
    downs.reset();
    const Tensor first = ups(x.narrow(-1, 0, 7)), second = ups(x.narrow(-1, 7, 5));
    testing::expect_near("up", cat({first, second, ups.flush()}, -1), up(x).to_vector<double>(), 1e-6);
    const Tensor begin = downs(x.narrow(-1, 0, 5)), end = downs(x.narrow(-1, 5, 7));
    testing::expect_near("down", cat({begin, end, downs.flush()}, -1), down(x).to_vector<double>(), 1e-6);
  }
}

TEST(Streaming, KeepsCopies) {
  Conv1d layer(1, 1, {.kernel_size = 4});
  StreamingConv1d stream(layer);
  const Tensor x = Tensor::from_vector(testing::reals(6, 1), {1, 1, 6});
  Tensor buffer = x.narrow(-1, 0, 3).clone();
  stream(buffer);
  buffer.copy_(x.narrow(-1, 3, 3));
  StreamingConv1d copy = stream;  // continues alone
  testing::expect_near("chunks", stream(buffer), layer(x).to_vector<double>(), 1e-6);
  testing::expect_near("copy", copy(buffer), layer(x).to_vector<double>(), 1e-6);
}

TEST(Streaming, RecordsNothing) {
  ConvTranspose1d up(2, 3, {.kernel_size = 4, .stride = 2});
  Conv1d down(2, 3, {.kernel_size = 4, .stride = 2});
  const Tensor x = Tensor::ones({1, 2, 5}, {.requires_grad = true});
  Tape tape;
  StreamingConvTranspose1d ups(up);
  StreamingConv1d downs(down);
  for (const Tensor& y : {ups(x), ups(x), ups.flush(), downs(x), downs(x), downs.flush()}) {
    EXPECT_FALSE(y.requires_grad());
  }
  EXPECT_EQ(tape.size(), 0U);
}

TEST(Streaming, TakesEmptyBatchesAndShortSequences) {
  ConvTranspose1d up(2, 3, {.kernel_size = 4, .stride = 2});
  Conv1d down(2, 3, {.kernel_size = 4, .stride = 2});
  StreamingConvTranspose1d ups(up);
  StreamingConv1d downs(down);
  EXPECT_EQ(ups(Tensor::ones({0, 2, 5})).shape(), Shape({0, 3, 10}));
  EXPECT_EQ(ups.flush().shape(), Shape({0, 3, 2}));
  EXPECT_EQ(ups(Tensor::ones({1, 2, 0})).shape(), Shape({1, 3, 0}));
  EXPECT_EQ(ups.flush().shape(), Shape({1, 3, 0}));
  EXPECT_EQ(downs(Tensor::ones({0, 2, 5})).shape(), Shape({0, 3, 1}));
  EXPECT_EQ(downs.flush().shape(), Shape({0, 3, 0}));
  EXPECT_EQ(downs(Tensor::ones({2, 3})).shape(), Shape({3, 0}));
  EXPECT_EQ(downs.flush().shape(), Shape({3, 0}));
}

TEST(Streaming, SaysWhatIsWrong) {
  ConvTranspose1d up(2, 3, {.kernel_size = 4, .stride = 2});
  Conv1d down(2, 4, {.kernel_size = 4, .groups = 2});
  StreamingConvTranspose1d ups(up);
  StreamingConv1d downs(down);
  EXPECT_ERROR(ups.flush(), "StreamingConvTranspose1d: ", "sequence");
  EXPECT_ERROR(downs.flush(), "StreamingConv1d: ", "sequence");
  EXPECT_ERROR(ups(Tensor()), "StreamingConvTranspose1d: ", "defined");
  EXPECT_ERROR(downs(Tensor::ones({1, 3, 5})), "StreamingConv1d: ", "(N, 2, L)", "(1, 3, 5)");
  EXPECT_ERROR(ups(Tensor::ones({5})), "StreamingConvTranspose1d: ", "(5,)");
  EXPECT_ERROR(ups(Tensor::ones({1, 2, 5}, {.dtype = kFloat64})), "float64", "float32");
  ups(Tensor::ones({1, 2, 5}));
  EXPECT_ERROR(ups(Tensor::ones({2, 2, 5})), "length alone", "(2, 2, 5)", "(1, 2, 1)");
  EXPECT_EQ(ups(Tensor::ones({1, 2, 5})).shape(), Shape({1, 3, 10})) << "an error changed the state";
}

TEST(Streaming, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  std::mt19937 random(5);
  const Tensor x = Tensor::from_vector(testing::integers(2 * 4 * 41, 4, 9), {2, 4, 41});
  const std::vector<std::int64_t> lengths = random_chunks(41, 9, random);
  Conv1d down(4, 6, {.kernel_size = 5, .stride = 2, .padding = 2});
  ConvTranspose1d up(4, 6, {.kernel_size = 5, .stride = 3, .padding = 2, .output_padding = 1});
  fill_with_integers(down, 1);
  fill_with_integers(up, 1);
  const Tensor expected_down = down(x), expected_up = up(x);
  down.to(kCUDA);
  up.to(kCUDA);
  expect_same_bits("down", in_chunks(down, {}, x.to(kCUDA), lengths).to(kCPU), expected_down);
  expect_same_bits("up", in_chunks(up, {}, x.to(kCUDA), lengths).to(kCPU), expected_up);
}

}  // namespace
}  // namespace adjoint::nn
