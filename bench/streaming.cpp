// Measures networks that run as a callback for sound: nn::Streaming on one thread, a block in each call.
//
//   bench_streaming [CALLS]      (20000; 1000000 takes minutes)
//
// The blocks are 64 samples at 48 kHz, which last 1.333 ms: for an amplifier model (a small WaveNet), the same model as
// a loop written by hand, and a denoiser (a small Demucs without its LSTM). The vocoder's tiny generator makes 256
// samples at 22.05 kHz of each frame. The program prints the median, the 99.99th percentile and the longest of the
// calls beside the time that a block lasts, and the latency. It also checks that the amplifier's two forms agree.
#include "generator.h"

#include <adjoint/adjoint.h>
#include <adjoint/nn/streaming.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <time.h>

namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kBlock = 64;
constexpr double kRate = 48000.0;

// ---- The networks.

constexpr std::int64_t kAmpChannels = 8, kAmpKernel = 3, kAmpLayers = 10;

// Causal convolutions with dilations from 1 to 512, each with a residual, and the sum of their outputs (van den Oord et
// al.: "WaveNet: a generative model for raw audio", 2016).
struct Amp : nn::Module {
  using Convs = nn::ModuleList<nn::Conv1d>;

  Amp() {
    for (std::int64_t i = 0; i < kAmpLayers; ++i) {
      dilated.append(nn::Conv1d(kAmpChannels, kAmpChannels, {.kernel_size = kAmpKernel, .dilation = dilation(i)}));
      mixed.append(nn::Conv1d(kAmpChannels, kAmpChannels, {.kernel_size = 1}));
    }
  }
  static std::int64_t dilation(std::int64_t layer) { return std::int64_t{1} << layer; }

  Tensor operator()(const Tensor& x) const {
    Tensor h = input(x), sum;
    for (std::size_t i = 0; i < dilated.size(); ++i) {
      const std::int64_t before = (kAmpKernel - 1) * dilation(static_cast<std::int64_t>(i));
      const Tensor z = adjoint::tanh(dilated[i](adjoint::pad(h, {before, 0})));
      sum = sum.defined() ? sum + z : z;
      h = h + mixed[i](z);
    }
    return output(sum);
  }

  nn::Child<nn::Conv1d> input = register_module("input", nn::Conv1d(1, kAmpChannels, {.kernel_size = 1}));
  nn::Child<Convs> dilated = register_module("dilated", Convs());
  nn::Child<Convs> mixed = register_module("mixed", Convs());
  nn::Child<nn::Conv1d> output = register_module("output", nn::Conv1d(kAmpChannels, 1, {.kernel_size = 1}));
};

// Strided convolutions down to a rate of 1/64, an LSTM, and back with skips (Defossez, Synnaeve, Adi: "Real time speech
// enhancement in the waveform domain", 2020).
struct Denoiser : nn::Module {
  using Convs = nn::ModuleList<nn::Conv1d>;
  using Ups = nn::ModuleList<nn::ConvTranspose1d>;

  Denoiser() {
    std::int64_t channels = 1;
    for (const std::int64_t next : {16, 32, 64}) {
      down.append(nn::Conv1d(channels, next, {.kernel_size = 8, .stride = 4, .padding = 2}));
      gates.append(nn::Conv1d(next, 2 * next, {.kernel_size = 1}));
      up_gates.append(nn::Conv1d(next, 2 * next, {.kernel_size = 1}));
      up.append(nn::ConvTranspose1d(next, channels, {.kernel_size = 8, .stride = 4, .padding = 2}));
      channels = next;
    }
  }

  Tensor operator()(const Tensor& x) const {
    Tensor h = x;
    std::vector<Tensor> skips;
    for (std::size_t i = 0; i < down.size(); ++i) {
      h = adjoint::glu(gates[i](adjoint::relu(down[i](h))), 1);
      skips.push_back(h);
    }
    h = lstm(h.transpose(1, 2)).output.transpose(1, 2);
    for (std::size_t i = down.size(); i-- > 0;) {
      h = up[i](adjoint::glu(up_gates[i](h + skips[i]), 1));
      if (i > 0) h = adjoint::relu(h);
    }
    return h;
  }

  nn::Child<Convs> down = register_module("down", Convs()), gates = register_module("gates", Convs()),
                   up_gates = register_module("up_gates", Convs());
  nn::Child<Ups> up = register_module("up", Ups());
  nn::Child<nn::LSTM> lstm = register_module("lstm", nn::LSTM(64, 64, {.batch_first = true}));
};

// ---- The amplifier by hand: sample by sample, layer by layer, each with a ring of its past.

using Frame = std::array<float, kAmpChannels>;

struct HandLayer {
  std::int64_t dilation;
  std::array<std::array<Frame, kAmpChannels>, kAmpKernel> weight;  // (tap, in, out)
  std::array<Frame, kAmpChannels> mix;                             // (in, out)
  Frame bias, mix_bias;
  std::vector<Frame> past;
};

class HandAmp {
 public:
  explicit HandAmp(const Amp& amp) {
    const auto values = [](const Tensor& t) { return t.to_vector<float>(); };
    const auto copy = [&](const Tensor& t, auto& to) {
      const std::vector<float> from = values(t);
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy(amp.input.weight, in_);
    copy(amp.input.bias, in_bias_);
    copy(amp.output.weight, out_);
    out_bias_ = values(amp.output.bias)[0];
    for (std::size_t i = 0; i < amp.dilated.size(); ++i) {
      HandLayer& layer = layers_.emplace_back();
      layer.dilation = Amp::dilation(static_cast<std::int64_t>(i));
      layer.past.resize(static_cast<std::size_t>((kAmpKernel - 1) * layer.dilation));
      copy(amp.dilated[i].bias, layer.bias);
      copy(amp.mixed[i].bias, layer.mix_bias);
      const std::vector<float> weight = values(amp.dilated[i].weight), mix = values(amp.mixed[i].weight);
      for (std::size_t o = 0; o < kAmpChannels; ++o) {
        for (std::size_t c = 0; c < kAmpChannels; ++c) {
          layer.mix[c][o] = mix[o * kAmpChannels + c];
          for (std::size_t k = 0; k < kAmpKernel; ++k)
            layer.weight[k][c][o] = weight[(o * kAmpChannels + c) * kAmpKernel + k];
        }
      }
    }
  }

  [[gnu::target_clones("default", "arch=haswell", "arch=skylake-avx512")]] void process(const float* in, float* out,
                                                                                        std::int64_t samples) {
    for (std::int64_t t = 0; t < samples; ++t, ++time_) {
      Frame h, sum{};
      for (std::size_t c = 0; c < kAmpChannels; ++c) h[c] = in_bias_[c] + in_[c] * in[t];
      for (HandLayer& layer : layers_) {
        const auto size = static_cast<std::int64_t>(layer.past.size());
        const Frame taps[kAmpKernel] = {layer.past[static_cast<std::size_t>(time_ % size)],
                                        layer.past[static_cast<std::size_t>((time_ + layer.dilation) % size)], h};
        layer.past[static_cast<std::size_t>(time_ % size)] = h;
        Frame z = layer.bias;
        for (std::size_t k = 0; k < kAmpKernel; ++k) {
          for (std::size_t c = 0; c < kAmpChannels; ++c) {
            for (std::size_t o = 0; o < kAmpChannels; ++o) z[o] += layer.weight[k][c][o] * taps[k][c];
          }
        }
        for (std::size_t o = 0; o < kAmpChannels; ++o) {
          z[o] = std::tanh(z[o]);
          sum[o] += z[o];
          h[o] += layer.mix_bias[o];
        }
        for (std::size_t c = 0; c < kAmpChannels; ++c) {
          for (std::size_t o = 0; o < kAmpChannels; ++o) h[o] += layer.mix[c][o] * z[c];
        }
      }
      float y = out_bias_;
      for (std::size_t c = 0; c < kAmpChannels; ++c) y += out_[c] * sum[c];
      out[t] = y;
    }
  }

 private:
  Frame in_{}, in_bias_{}, out_{};
  float out_bias_ = 0.0F;
  std::vector<HandLayer> layers_;
  std::int64_t time_ = 0;
};

// ---- Measurements.

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

// Prints a row. `latency` is in samples.
void measure(const char* name, std::int64_t calls, double block_ms, std::int64_t latency,
             const std::function<void()>& call) {
  for (int i = 0; i < 200; ++i) call();
  std::vector<double> times(static_cast<std::size_t>(calls));
  for (double& time : times) {
    const double begin = now_ms();
    call();
    time = now_ms() - begin;
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[std::min(times.size() - 1, static_cast<std::size_t>(part * static_cast<double>(times.size())))];
  };
  std::printf("| %s | %lld | %.3f | %.4f | %.4f | %.4f |\n", name, static_cast<long long>(latency), block_ms, at(0.5),
              at(0.9999), times.back());
}

void measure(const char* name, std::int64_t calls, nn::Streaming& stream, const Tensor& block, double rate) {
  Tensor out = stream(block);
  measure(name, calls, 1e3 * static_cast<double>(out.size(-1)) / rate, stream.latency(),
          [&] { stream.process(block, out); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t calls = argc > 1 ? std::stoll(argv[1]) : 20000;
  adjoint::set_num_threads(1);
  adjoint::manual_seed(1);
  const Tensor block = Tensor::randn({1, 1, kBlock});
  std::puts("| network | latency, samples | a block lasts, ms | median, ms | 99.99 %, ms | longest, ms |");
  std::puts("|---|---:|---:|---:|---:|---:|");

  Amp amp;
  amp.eval();
  nn::Streaming amp_stream(amp, {.block = kBlock});
  HandAmp by_hand(amp);
  Tensor by_hand_out = Tensor::zeros({1, 1, kBlock});
  double difference = 0.0;
  for (int i = 0; i < 50; ++i) {
    const Tensor x = Tensor::randn({1, 1, kBlock}), y = amp_stream(x);
    by_hand.process(x.data<float>(), by_hand_out.mutable_data<float>(), kBlock);
    difference = std::max(difference, adjoint::amax(adjoint::abs(y - by_hand_out)).item<double>());
  }
  measure("amplifier", calls, amp_stream, block, kRate);
  measure("amplifier, by hand", calls, 1e3 * kBlock / kRate, 0,
          [&] { by_hand.process(block.data<float>(), by_hand_out.mutable_data<float>(), kBlock); });

  Denoiser denoiser;
  denoiser.eval();
  nn::Streaming denoiser_stream(denoiser, {.block = kBlock});
  measure("denoiser", calls, denoiser_stream, block, kRate);

  vocoder::Generator generator({.network = "tiny"});
  vocoder::remove_weight_norms(generator);
  generator.eval();
  nn::Streaming vocoder_stream(generator, {.block = 1, .channels = 80});
  measure("vocoder", std::max<std::int64_t>(calls / 10, 1), vocoder_stream, Tensor::randn({1, 80, 1}), 22050.0);

  std::printf("\nThe amplifier's two forms differ by %.1e at most.\n", difference);
  return difference < 1e-4 ? 0 : 1;
}
