// Streaming: networks in blocks against their calls on the whole signal. tests/faults/plan_test.cpp watches the system.
#include <adjoint/adjoint.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/tests/nn/networks/hifigan.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

Tensor integers_like(const Shape& shape, std::uint64_t seed, DType dtype = kFloat32, std::int64_t magnitude = 2) {
  return Tensor::from_vector(testing::integers(shape.numel(), magnitude, seed), shape).to(dtype);
}

// The outputs of the signal x in calls of at most `most` samples, and of flush().
Tensor stream_in_blocks(Streaming& stream, const Tensor& x, std::int64_t most, std::mt19937& random) {
  const std::int64_t multiple = stream.multiple();
  std::vector<Tensor> results;
  for (std::int64_t at = 0; at < x.size(2);) {
    const auto drawn = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most / multiple + 1)) * multiple;
    const std::int64_t n = std::min(x.size(2) - at, drawn);
    results.push_back(stream(x.narrow(2, at, n)));
    EXPECT_EQ(results.back().size(-1), stream.outputs(n));
    at += n;
  }
  results.push_back(stream.flush());
  return cat(results, -1);
}

// The whole call, with latency() zeros in front.
Tensor delayed(const Tensor& whole, std::int64_t latency) {
  Shape shape = whole.shape();
  shape[shape.size() - 1] = latency;
  return cat({Tensor::zeros(shape, {.dtype = whole.dtype()}), whole}, -1);
}

struct Check {
  Shape signal = {1, 2, 256};  // (batch, channels, samples)
  DType dtype = kFloat32;
  double tolerance = 0.0;
  std::vector<std::int64_t> blocks = {1, 7, 64};
};

void expect_streams(const std::string& what, const Function& f, const Check& check = {}, std::uint64_t seed = 1) {
  SCOPED_TRACE(what);
  std::mt19937 random(static_cast<unsigned>(seed));
  const Tensor x = check.tolerance == 0.0
                       ? integers_like(check.signal, seed, check.dtype)
                       : Tensor::from_vector(testing::reals(check.signal.numel(), seed), check.signal).to(check.dtype);
  const Tensor whole = f(x);
  for (const std::int64_t block : check.blocks) {
    SCOPED_TRACE("block " + std::to_string(block));
    Streaming stream(f, {.block = block, .channels = x.size(1), .batch = x.size(0), .dtype = check.dtype});
    const Tensor expected = delayed(whole, stream.latency());
    for (int time = 0; time < 2; ++time) {  // flush() starts a new signal
      const Tensor actual = stream_in_blocks(stream, x, block, random);
      // Outputs beyond the network's own, of a signal that padding did not make longer, are cut.
      ASSERT_GE(actual.size(-1), expected.size(-1));
      const Tensor cut = actual.narrow(-1, 0, expected.size(-1));
      if (check.tolerance == 0.0) {
        testing::expect_same_bits(what, cut + 0.0, expected + 0.0);
      } else {
        testing::expect_near(what, cut, expected.to(kFloat64).to_vector<double>(), check.tolerance);
      }
    }
  }
}

TEST(StreamingNetwork, StreamsConvolutionsOfEveryGeometryExactly) {
  for (const std::int64_t kernel : {1, 2, 3, 5}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1, 4}) {
        const std::int64_t dilation = 1 + (kernel + padding) % 3, groups = 1 + kernel % 2;
        const Tensor w = integers_like({4, 2 / groups, kernel}, 5), b = integers_like({4}, 6);
        const Conv1dParams params{.stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
        expect_streams("kernel " + std::to_string(kernel) + " stride " + std::to_string(stride) + " padding " +
                           std::to_string(padding),
                       [=](const Tensor& x) { return conv1d(x, w, b, params); },
                       {.signal = {2, 2, 36}, .blocks = {6, 36}});
      }
    }
  }
}

TEST(StreamingNetwork, StreamsTransposedConvolutionsOfEveryGeometryExactly) {
  for (const std::int64_t kernel : {1, 2, 4, 5}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1}) {
        for (const std::int64_t output_padding : {0, 1}) {
          const std::int64_t dilation = 2;
          const Tensor w = integers_like({2, 3, kernel}, 5), b = integers_like({3}, 6);
          const ConvTranspose1dParams params{.stride = stride,
                                             .padding = padding,
                                             .output_padding = output_padding,
                                             .dilation = dilation};
          expect_streams("kernel " + std::to_string(kernel) + " stride " + std::to_string(stride) + " padding " +
                             std::to_string(padding) + " output_padding " + std::to_string(output_padding),
                         [=](const Tensor& x) { return conv_transpose1d(x, w, b, params); },
                         {.signal = {1, 2, 23}, .blocks = {1, 5}});
        }
      }
    }
  }
}

// Functions of (1, 2, L) whose results are exact on integers.
std::vector<std::pair<std::string, Function>> exact_functions() {
  const Tensor w = integers_like({2, 2, 3}, 1), b = integers_like({2}, 2), square = integers_like({2, 2}, 3);
  const auto conv = [=](const Tensor& x, std::int64_t padding, std::int64_t dilation = 1) {
    return conv1d(x, w, b, Conv1dParams{.padding = padding, .dilation = dilation});
  };
  return {
      {"relu", [](const Tensor& x) { return relu(x) - x * 2.0 + 1.0; }},
      {"nothing", [](const Tensor& x) { return x; }},
      {"choices",
       [=](const Tensor& x) {
         const Tensor y = conv(x, 1);
         return where(y > x, y, clamp(x, -1.0, 1.0)) + maximum(x, y) + masked_fill(x, y < 0.0, 7.0);
       }},
      {"copy in place", [=](const Tensor& x) { return Tensor::ones(x.shape()).copy_(conv(x, 1)).add_(x); }},
      {"sum in place", [=](const Tensor& x) { return Tensor::ones(x.shape()).add_(conv(x, 1)); }},
      {"cut and padded",
       [=](const Tensor& x) {
         return conv(pad(x, {-1, 3}), 1);
       }},
      {"stack",
       [=](const Tensor& x) {
         return stack({x, conv(x, 2).narrow(2, 1, x.size(2))}, 1).sum({1});
       }},
      {"in place", [=](const Tensor& x) { return relu(conv(x, 1)).mul_(2.0).add_(x); }},
      {"residual", [=](const Tensor& x) { return x + relu(conv(x, 1)); }},
      {"causal",
       [=](const Tensor& x) {
         return conv(pad(x, {4, 0}), 0, 2);
       }},
      {"bias behind padding",
       [=](const Tensor& x) {
         return conv(pad(x, {5, 3}) + 1.0, 2);
       }},
      {"bias between convolutions", [=](const Tensor& x) { return conv(conv(x, 1) + 3.0, 1, 1); }},
      {"padding with a value",
       [=](const Tensor& x) {
         return conv(pad(x, {2, 2}, 1.5), 0);
       }},
      {"padding twice",
       [=](const Tensor& x) {
         return conv(pad(pad(x, {2, 1}, 1.0), {1, 0}, 2.0), 1);
       }},
      {"padding, cut, and again",
       [=](const Tensor& x) {
         return conv(pad(pad(x, {2, 2}).narrow(2, 3, x.size(2) - 2), {4, 3}), 1);
       }},
      {"more padding than kernel",
       [=](const Tensor& x) {
         return pad(conv(x, 4), {3, 2});
       }},
      {"zeros in front by cat",
       [=](const Tensor& x) {
         return conv(cat({Tensor::zeros({1, 2, 2}), x}, 2), 0);
       }},
      {"cut end", [=](const Tensor& x) { return conv(x, 2).narrow(2, 0, x.size(2)); }},
      {"cut start", [=](const Tensor& x) { return conv(x, 0) + x.narrow(2, 2, x.size(2) - 2); }},
      {"centre of a residual", [=](const Tensor& x) { return conv(x, 0) + slice(x, 2, 1, -1); }},
      {"every second", [](const Tensor& x) { return slice(x, 2, 1, {}, 2); }},
      {"skips of several lengths",
       [=](const Tensor& x) {
         const Tensor a = conv(x, 1), c = conv(relu(a), 2, 2), d = conv(c, 4, 4);
         return a + c + d + x;
       }},
      {"gate", [=](const Tensor& x) { return conv(x, 1) * relu(conv(x, 2, 2)); }},
      {"cat",
       [=](const Tensor& x) {
         return cat({x, conv(x, 1), conv(conv(x, 1), 1)}, 1);
       }},
      {"halves",
       [=](const Tensor& x) {
         const std::vector<Tensor> parts = chunk(conv(x, 1), 2, 1);
         return parts[0] * parts[1] + x.select(1, 0).unsqueeze(1);
       }},
      {"max pool", [](const Tensor& x) { return max_pool1d(x, 3, 2, 1); }},
      {"max pool, dilated",
       [](const Tensor& x) { return max_pool1d(x, 3, MaxPool1dParams{.stride = 1, .padding = 1, .dilation = 2}); }},
      {"average pool", [](const Tensor& x) { return avg_pool1d(x * 4.0, 4, 2, 1); }},
      {"strided and up again",
       [=](const Tensor& x) {
         const Tensor down = conv1d(x, w, b, Conv1dParams{.stride = 2, .padding = 1});
         return conv_transpose1d(relu(down), w, b,
                                 ConvTranspose1dParams{.stride = 2, .padding = 1, .output_padding = 1}) +
                x;
       }},
      {"cut before a transposed convolution",
       [=](const Tensor& x) {
         return conv_transpose1d(x.narrow(2, 1, x.size(2) - 4), w, b, ConvTranspose1dParams{.stride = 2, .padding = 1});
       }},
      {"nearest",
       [=](const Tensor& x) {
         return conv(interpolate(conv(x, 1), {.scale_factor = {3.0}, .mode = Interpolation::kNearest}), 1);
       }},
      {"matmul from the left", [=](const Tensor& x) { return matmul(square, x); }},
      {"linear", [=](const Tensor& x) { return linear(x.transpose(1, 2), square, b).transpose(1, 2); }},
      {"mean over channels", [](const Tensor& x) { return x - x.mean({1}, true) * 2.0; }},
      {"sum without the axis", [](const Tensor& x) { return x.sum({1}); }},
      {"without batch", [](const Tensor& x) { return max_pool1d(x.squeeze(0), 2, 1); }},
      {"pixel shuffle",
       [](const Tensor& x) {
         return x.transpose(1, 2).reshape({1, 1, 2 * x.size(2)}) + 1.0;
       }},
      {"pixel unshuffle",
       [=](const Tensor& x) {
         return conv(x, 1).reshape({1, 2, x.size(2) / 2, 2}).transpose(2, 3).reshape({1, 4, x.size(2) / 2});
       }},
      {"constants of channels",
       [=](const Tensor& x) {
         return x * b.reshape({1, 2, 1}) + b.reshape({2, 1});
       }},
      {"2-D",
       [](const Tensor& x) {
         const Tensor kernel = integers_like({3, 1, 2, 3}, 4), image = x.unsqueeze(1);
         const Tensor y = conv2d(image, kernel, {}, Conv2dParams{.padding = {1, 2}, .dilation = {1, 2}});
         return max_pool2d(relu(y), 2, MaxPool2dParams{.stride = {2, 1}}).sum({2});
       }},
      {"2-D, transposed",
       [](const Tensor& x) {
         const Tensor kernel = integers_like({1, 2, 3, 4}, 4);
         const ConvTranspose2dParams params{.stride = 2, .padding = 1, .output_padding = {1, 0}};
         return conv_transpose2d(x.unsqueeze(1), kernel, {}, params).sum({2});
       }},
  };
}

TEST(StreamingNetwork, StreamsFunctionsExactly) {
  for (const auto& [name, f] : exact_functions()) {
    const bool halves = name == "max pool" || name == "average pool" || name == "every second" ||
                        name == "strided and up again" || name == "pixel unshuffle";
    Check check{.signal = {1, 2, 154}};
    if (halves) check.blocks = {2, 14, 64};
    expect_streams(name, f, check);
  }
}

TEST(StreamingNetwork, StreamsLayersInDouble) {
  manual_seed(5);
  Sequential net(Conv1d(2, 6, {.kernel_size = 3, .padding = 1}), BatchNorm1d(6), PReLU(),
                 Conv1d(6, 6, {.kernel_size = 3, .padding = 2, .dilation = 2}), GELU(), Snake(6), Dropout(0.5),
                 Conv1d(6, 8, {.kernel_size = 4, .stride = 2, .padding = 1}), GLU(1), ELU(),
                 ConvTranspose1d(4, 3, {.kernel_size = 4, .stride = 2, .padding = 1}), Tanh());
  net.to(kFloat64);
  net.eval();
  expect_streams("layers", [=](const Tensor& x) { return net(x); },
                 {.signal = {2, 2, 96}, .dtype = kFloat64, .tolerance = 1e-12, .blocks = {2, 14, 64}});
  LayerNorm norm({2});
  RMSNorm rms({2});
  norm.to(kFloat64);
  rms.to(kFloat64);
  expect_streams("norms over channels",
                 [=](const Tensor& x) { return softmax(rms(norm(x.transpose(1, 2))), 2).transpose(1, 2); },
                 {.dtype = kFloat64, .tolerance = 1e-12});
}

// (N, C, L) through a layer of (L, N, C) or (N, L, C).
template <class Layer>
Function over_time(const Layer& layer, bool batch_first = false) {
  return [=](const Tensor& x) {
    const auto turned = [&](const Tensor& t) { return batch_first ? t.transpose(1, 2) : t.permute({2, 0, 1}); };
    const Tensor y = layer(turned(x)).output;
    return batch_first ? y.transpose(1, 2) : y.permute({1, 2, 0});
  };
}

TEST(StreamingNetwork, StreamsRecurrentLayers) {
  manual_seed(12);
  const auto check = [](const char* name, const Function& f, const std::vector<std::int64_t>& blocks = {1, 7, 16}) {
    expect_streams(name, f, {.signal = {2, 2, 40}, .dtype = kFloat64, .tolerance = 1e-12, .blocks = blocks});
  };
  LSTM lstm(2, 3, {.num_layers = 2, .batch_first = true});
  RNN rnn(2, 3);
  GRU gru(3, 2);
  LSTM projected(2, 4, {.proj_size = 2});
  Conv1d ahead(2, 2, {.kernel_size = 5, .padding = 4}), down(2, 2, {.kernel_size = 4, .stride = 2, .padding = 3});
  ConvTranspose1d up(2, 2, {.kernel_size = 2, .stride = 2});
  for (Module* module : std::initializer_list<Module*>{&lstm, &rnn, &gru, &projected, &ahead, &down, &up}) {
    module->to(kFloat64);
    module->eval();
  }
  check("LSTM", over_time(lstm, true));
  check("RNN", over_time(rnn));
  check("GRU behind RNN", [=](const Tensor& x) { return over_time(gru)(over_time(rnn)(x)); });
  check("LSTM with projections", over_time(projected));
  // The state is the first one until the signal begins, which is late behind a look ahead, and early behind padding.
  check("behind look ahead", [=](const Tensor& x) { return over_time(projected)(ahead(x)); });
  check("behind padding", [=](const Tensor& x) { return over_time(projected)(pad(x, {5, 0}, 0.5)); });
  check("between rates", [=](const Tensor& x) { return up(over_time(projected)(down(x))); }, {2, 8, 14});
  const Tensor h = Tensor::randn({1, 2, 3}, {.dtype = kFloat64});
  check("with a first state", [=](const Tensor& x) {
    return rnn(x.permute({2, 0, 1}), {h}).output.permute({1, 2, 0});
  });
}

// A random stack of layers, branches and rates.
Function random_network(std::mt19937& random, std::int64_t channels, DType dtype) {
  std::vector<Function> layers;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::int64_t rate = 1;  // the input's samples for each of the signal
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t seed = random();
    const std::int64_t kernel = 1 + below(4), dilation = 1 + below(3), padding = below(4);
    const Tensor w = integers_like({channels, channels, kernel}, seed, dtype, 1),
                 b = integers_like({channels}, seed, dtype);
    switch (below(9)) {
      case 0:
        layers.push_back(
            [=](const Tensor& x) { return conv1d(x, w, b, Conv1dParams{.padding = padding, .dilation = dilation}); });
        break;
      case 1: layers.push_back([=](const Tensor& x) { return relu(x - 1.0); }); break;
      case 2:
        layers.push_back([=](const Tensor& x) {  // causal, with a residual
          return x + conv1d(pad(x, {(kernel - 1) * dilation, 0}), w, b, Conv1dParams{.dilation = dilation});
        });
        break;
      case 3:
        if (rate == 4) break;
        rate *= 2;
        layers.push_back(
            [=](const Tensor& x) { return conv1d(x, w, b, Conv1dParams{.stride = 2, .padding = kernel}); });
        break;
      case 4:
        if (rate == 1) break;
        rate /= 2;
        layers.push_back([=](const Tensor& x) {
          return conv_transpose1d(x, w, b, ConvTranspose1dParams{.stride = 2, .dilation = dilation});
        });
        break;
      case 5: layers.push_back([=](const Tensor& x) { return max_pool1d(x, kernel + 1, 1, kernel / 2); }); break;
      case 6: {  // looks ahead, on two branches
        const Tensor three = integers_like({channels, channels, 3}, seed, dtype, 1);
        layers.push_back([=](const Tensor& x) {
          const Tensor inner = relu(conv1d(x, three, b, Conv1dParams{.padding = dilation, .dilation = dilation}));
          return cat({inner, conv1d(inner, three, b, Conv1dParams{.padding = 1}) - x}, 1).narrow(1, 1, channels);
        });
        break;
      }
      case 7:
        layers.push_back([=](const Tensor& x) { return x.narrow(2, padding, x.size(2) - padding - dilation); });
        break;
      default: layers.push_back([=](const Tensor& x) { return pad(x, {padding, kernel}, padding % 2); });
    }
  }
  return [=](const Tensor& x) {
    Tensor y = x;
    for (const Function& layer : layers) y = fmod(layer(y), 16.0);  // small integers stay exact
    return y;
  };
}

TEST(StreamingNetwork, StreamsRandomNetworks) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const DType dtype = i % 2 == 0 ? kFloat32 : kFloat64;
    const Function f = random_network(random, 2, dtype);
    expect_streams("network " + std::to_string(i), f, {.signal = {1, 2, 120}, .dtype = dtype, .blocks = {4, 12, 64}},
                   static_cast<std::uint64_t>(i));
  }
}

TEST(StreamingNetwork, StreamsAVocoder) {
  manual_seed(6);
  networks::HifiGan net;
  net.to(kFloat64);
  net.eval();
  expect_streams("hifigan", [=](const Tensor& x) { return net(x); },
                 {.signal = {1, 6, 9}, .dtype = kFloat64, .tolerance = 1e-12, .blocks = {1, 4}});
}

TEST(StreamingNetwork, KeepsThePrecision) {
  const Tensor w = integers_like({2, 2, 3}, 1), b = integers_like({2}, 2);
  const auto f = [=](const Tensor& x) {
    const Tensor y = conv1d(x, w.to(x.dtype()), b.to(x.dtype()), Conv1dParams{.padding = 1});
    return y + mean(x * 2.0, {1}, true);
  };
  expect_streams("bfloat16", f, {.dtype = kBFloat16});
  expect_streams("float16", f, {.dtype = kFloat16});
  const AutocastGuard region(kBFloat16);
  expect_streams("mixed precision", [=](const Tensor& x) { return relu(f(x)); });
}

TEST(StreamingNetwork, HasTheSameBitsForEveryDivision) {
  manual_seed(7);
  Sequential net(Conv1d(1, 8, {.kernel_size = 5, .padding = 2}), Tanh(),
                 Conv1d(8, 1, {.kernel_size = 3, .padding = 1}));
  net.eval();
  const Tensor x = Tensor::randn({1, 1, 500});
  Streaming stream(net, {.block = 64});
  std::mt19937 random(3);
  const Tensor first = stream_in_blocks(stream, x, 64, random);
  for (const std::int64_t most : {1, 7, 64}) {
    testing::expect_same_bits("most " + std::to_string(most), stream_in_blocks(stream, x, most, random), first);
  }
}

std::int64_t latency_of(const Function& f, const StreamingOptions& options = {.block = 8}) {
  return Streaming(f, options).latency();
}

TEST(StreamingNetwork, CountsItsLatency) {
  const Tensor w = Tensor::ones({1, 1, 5});
  const auto conv = [=](std::int64_t padding, std::int64_t dilation = 1, std::int64_t stride = 1) {
    return [=](const Tensor& x) {
      return conv1d(x, w, {}, Conv1dParams{.stride = stride, .padding = padding, .dilation = dilation});
    };
  };
  EXPECT_EQ(latency_of(conv(2)), 2);
  EXPECT_EQ(latency_of(conv(0)), 4);
  EXPECT_EQ(latency_of(conv(6, 3)), 6);
  EXPECT_EQ(latency_of(conv(9)), 0);        // the padding in front is later than the kernel reaches
  EXPECT_EQ(latency_of(conv(2, 1, 2)), 1);  // output 0 reads samples 0 to 2, which two blocks of 2 bring
  EXPECT_EQ(latency_of([=](const Tensor& x) { return conv(0)(pad(x, {4, 0})); }), 0);
  EXPECT_EQ(latency_of([=](const Tensor& x) { return x + conv(2)(conv(2)(x)); }), 4);
  EXPECT_EQ(latency_of([=](const Tensor& x) {
              return conv_transpose1d(conv(2, 1, 2)(x), w, {}, ConvTranspose1dParams{.stride = 2, .padding = 2});
            }),
            4);
}

TEST(StreamingNetwork, StartsAgainAfterReset) {
  manual_seed(8);
  Sequential net(Conv1d(1, 4, {.kernel_size = 7, .padding = 5}), ReLU(),
                 ConvTranspose1d(4, 1, {.kernel_size = 4, .stride = 2}));
  net.eval();
  Streaming stream(net, {.block = 16});
  const Tensor x = Tensor::randn({1, 1, 16}), first = stream(x);
  EXPECT_EQ(stream.multiple(), 1);
  EXPECT_EQ(stream.outputs(16), 32);
  static_cast<void>(stream(Tensor::full({1, 1, 5}, 100.0)));
  stream.reset();
  testing::expect_same_bits("reset", stream(x), first);
  EXPECT_GT(stream.flush().numel(), 0);
  testing::expect_same_bits("flush", stream(x), first);
  stream.reset();
  EXPECT_EQ(stream.flush().numel(), 0);  // of no signal
  Streaming moved = std::move(stream);
  testing::expect_same_bits("moved", moved(x), first);
  EXPECT_ERROR(stream.latency(), "Streaming: it must hold a network; got one that was moved from");
}

TEST(StreamingNetwork, OutlivesItsModuleAndFreezesItsParameters) {
  Tensor weight;
  Sequential net(Conv1d(1, 1, {.kernel_size = 1, .bias = false}));
  weight = net.parameters()[0];
  Streaming stream = [&] {
    Sequential other(net);
    other.eval();
    return Streaming(other, {.block = 4});
  }();
  EXPECT_ERROR(weight.mul_(2.0), "frozen");
}

// A module that computes the mean over time, as squeeze and excitation does.
struct Squeeze : Module {
  Tensor operator()(const Tensor& x) const { return x * sigmoid(x.mean({2}, true)); }
};
struct Network : Module {
  Tensor operator()(const Tensor& x) const { return squeeze(relu(x)); }
  Child<Squeeze> squeeze = register_module("squeeze", Squeeze());
};

Streaming streaming(const Function& f, const StreamingOptions& options = {.block = 8, .channels = 2}) {
  return Streaming(f, options);
}

TEST(StreamingNetwork, RefusesWhatReadsTheWholeSignal) {
  Network net;
  net.eval();
  EXPECT_ERROR(Streaming(net), "Streaming: a network must work on blocks of its signal", "got mean in 'squeeze'",
               "reads the whole signal");
  const auto refused = [](const Function& f, const char* part, const char* why = "") {
    EXPECT_ERROR(streaming(f), "Streaming: ", part, why);
  };
  refused([](const Tensor& x) { return softmax(x, 2); }, "got softmax", "reads the whole signal");
  refused([](const Tensor& x) { return instance_norm(x); }, "got instance_norm", "normalises over time");
  refused([](const Tensor& x) { return group_norm(x, 1); }, "got group_norm", "normalises over time");
  refused([](const Tensor& x) { return layer_norm(x, {x.size(2)}); }, "got layer_norm", "normalises over time");
  refused([](const Tensor& x) { return matmul(x.transpose(1, 2), x); }, "got matmul", "of two signals");
  refused([](const Tensor& x) { return flip(x, {2}); }, "got flip", "no rule");
  refused([](const Tensor& x) { return cumsum(x, 2); }, "got cumsum", "no rule");
  refused([](const Tensor& x) { return adaptive_avg_pool1d(x, 4); }, "got avg_pool", "depends on the length");
  refused(
      [](const Tensor& x) {
        return max_pool3d(x.unsqueeze(2).unsqueeze(2), {1, 1, 2});
      },
      "got max_pool", "of volumes");
  refused([](const Tensor& x) { return x.select(2, 3).unsqueeze(2) + x; }, "got select", "selects one sample");
  refused([](const Tensor& x) { return x.narrow(2, 0, 100); }, "got narrow", "depends on the length");
  refused([](const Tensor& x) { return x / static_cast<double>(x.size(2)); }, "got div", "depends on the length");
  refused([](const Tensor& x) { return x + arange(x.size(2)).to(kFloat32); }, "got add", "constant that changes");
  refused([](const Tensor& x) { return pad(x, {2, 2}, PadMode::kReflect); }, "got pad", "repeats samples");
  refused([](const Tensor& x) { return cat({x, x}, 2); }, "got cat", "joins signals");
  refused([](const Tensor& x) { return avg_pool1d(x, 3, AvgPool1dParams{.padding = 1, .count_include_pad = false}); },
          "got avg_pool", "another divisor");
  refused([](const Tensor& x) { return max_pool1d_with_indices(x, 2).first; }, "got max_pool", "indices");
  refused([](const Tensor& x) { return conv1d(x, x.narrow(2, 0, 3)); }, "got ", "");
  refused(
      [](const Tensor& x) {
        return x * 2.0 + x.transpose(1, 2).reshape({1, 2, x.size(2)});
      },
      "got reshape", "mixes time");
  refused([](const Tensor& x) { return x + Tensor::randn(x.shape()); }, "random numbers");
  refused([](const Tensor& x) { return x * x.sum().item<float>(); }, "must compute with operators alone");
  refused([](const Tensor&) { return Tensor::ones({1, 2, 8}); }, "must depend on the signal");
  refused([](const Tensor& x) { return x.transpose(1, 2); }, "time must be the output's last axis");
  LSTM both(2, 3, {.bidirectional = true});
  both.eval();
  refused(over_time(both), "got LSTM in ", "reads the signal backwards");
  RNN rnn(2, 3);
  rnn.eval();
  refused([=](const Tensor& x) { return rnn(x.permute({2, 0, 1})).h_n; }, "the output must be a signal");
  refused([=](const Tensor& x) { return x + rnn(x.permute({2, 0, 1})).h_n.sum(); }, "last state of a recurrence");
  refused(
      [=](const Tensor& x) {
        return rnn(x.permute({0, 2, 1})).output.transpose(1, 2);
      },
      "got RNN", "time is axis 1");
  RNNCell cell(2, 2);
  refused(
      [=](const Tensor& x) {
        Tensor h = Tensor::zeros({1, 2});
        for (std::int64_t t = 0; t < x.size(2); ++t) h = cell(x.select(2, t), {h});
        return h.unsqueeze(2);
      },
      "got select", "as a loop over time does");
}

TEST(StreamingNetwork, NamesTheFaultsOfCalls) {
  const Tensor w = Tensor::ones({1, 1, 4});
  const auto down = [=](const Tensor& x) { return conv1d(x, w, {}, Conv1dParams{.stride = 4}); };
  EXPECT_ERROR(Streaming(down, {.block = 6}),
               "Streaming: the block must be a multiple of the network's strides; got block 6, strides 4");
  EXPECT_ERROR(Streaming(down, {.block = 0}), "Streaming: block, channels and batch must be positive; got 0, 1 and 1");
  EXPECT_ERROR(Streaming(down, {.block = 8, .channels = 2}), "conv1d: ");
  Streaming stream(down, {.block = 8});
  EXPECT_EQ(stream.multiple(), 4);
  Tensor out = Tensor::zeros({1, 1, 2});
  EXPECT_ERROR(stream(Tensor::zeros({1, 1, 6})),
               "Streaming: a block must be float32 (1, 1, n) on the CPU, n up to 8 and a multiple of 4; got float32 ");
  EXPECT_ERROR(stream(Tensor::zeros({1, 1, 12})), "n up to 8");
  EXPECT_ERROR(stream(Tensor::zeros({1, 2, 8})), "a block must be");
  EXPECT_ERROR(stream(Tensor::zeros({8})), "a block must have the shape (batch, channels, n)");
  EXPECT_ERROR(stream(Tensor::zeros({1, 1, 8}, {.dtype = kFloat64})), "a block must be");
  EXPECT_ERROR(stream.process(Tensor::zeros({1, 1, 4}), out), "Streaming: out must be a contiguous float32 ",
               "for 4 samples");
  Conv1d layer(1, 1, {.kernel_size = 3});
  EXPECT_ERROR(Streaming(layer), "Streaming: the network must be in eval mode");
  // The whole call refuses a signal that is shorter than the kernel.
  const auto residual = [=](const Tensor& x) { return x + pad(conv1d(x, w), {2, 1}); };
  Streaming short_signal(residual, {.block = 4});
  const Tensor x = Tensor::ones({1, 1, 4});
  static_cast<void>(short_signal(x.narrow(2, 0, 3)));
  EXPECT_ERROR(short_signal.flush(), "Streaming: a signal must have a length that the network accepts; got 3 samples",
               "operands of add have 3 and 0");
  static_cast<void>(short_signal(x.narrow(2, 3, 1)));  // the signal continues
  EXPECT_EQ(short_signal.flush().size(2), short_signal.latency());
}

TEST(StreamingNetwork, TakesElementsInMemory) {
  const auto f = [](const Tensor& x) { return avg_pool1d(x.sum({1}, true), 2) + 1.0; };
  Streaming tensors(f, {.block = 8, .channels = 2, .batch = 2}), memory(f, {.block = 8, .channels = 2, .batch = 2});
  for (const std::int64_t n : {8, 2, 0, 6}) {
    const Tensor x = integers_like({2, 2, n}, static_cast<std::uint64_t>(n));
    const std::vector<float> in = x.to_vector<float>();
    std::vector<float> out(static_cast<std::size_t>(n), -1.0F);
    memory.process(in, out);
    EXPECT_EQ(out, tensors(x).to_vector<float>());
  }
  std::vector<float> in(8), out(4);
  EXPECT_ERROR(memory.process(in, in), "Streaming: out must have 2 elements for 2 samples; got 8");
  EXPECT_ERROR(memory.process(std::vector<float>(10), out), "a block must have 4 rows of n elements, n up to 8 and a ",
               "multiple of 2; got 10 elements");
  std::vector<double> wide(8);
  EXPECT_ERROR(memory.process(wide, wide), "must have the dtype of the network's input and output; got float64");
}

TEST(StreamingNetwork, TakesBlocksOfAnyStrides) {
  Streaming stream([](const Tensor& x) { return x * 2.0; }, {.block = 4, .channels = 3});
  const Tensor x = integers_like({1, 4, 3}, 2).transpose(1, 2);
  testing::expect_same_bits("strided", stream(x), (x * 2.0).contiguous());
  EXPECT_EQ(stream(x.narrow(2, 0, 0)).shape(), (Shape{1, 3, 0}));
  EXPECT_GT(stream.nbytes(), 0U);
}

}  // namespace
}  // namespace adjoint::nn
