// Measures networks that run as a callback for sound: nn::Streaming on one thread, a block in each call.
//
//   bench_streaming [CALLS]      (20000; 1000000 takes minutes)
//
// The blocks are 64 samples at 48 kHz, which last 1.333 ms: for an amplifier model (a small WaveNet), the same model as
// a loop written by hand, and a denoiser (a small Demucs). The vocoder's tiny generator makes 256 samples at 22.05 kHz
// of each frame. The program prints the latency, the time that a block lasts, the memory of the stream, and the median,
// the 99.99th percentile and the longest of the calls. It also checks that the amplifier's two forms agree.
//
// A call during which the system gave the core to another thread says nothing about the library. getrusage counts the
// thread's context switches around each call, and calls with a switch are a group of their own: their number and the
// longest of them. The kernel of a virtual machine does not see the time that its host takes, so such calls remain.
#include "amp/model.h"
#include "vocoder/generator.h"

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

#include <sys/resource.h>
#include <time.h>

namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kBlock = 64;
constexpr double kRate = 48000.0;

// ---- The networks.

using amp::Amp;

constexpr std::int64_t kAmpChannels = 8, kAmpKernel = Amp::kKernel;

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
      const std::vector<float> weight = values(amp.dilated[i].weight);
      std::vector<float> mix(kAmpChannels * kAmpChannels);
      if (i < amp.mixed.size()) {  // the last layer has no mix
        copy(amp.mixed[i].bias, layer.mix_bias);
        mix = values(amp.mixed[i].weight);
      }
      for (std::size_t o = 0; o < kAmpChannels; ++o) {
        for (std::size_t c = 0; c < kAmpChannels; ++c) {
          layer.mix[c][o] = mix[o * kAmpChannels + c];
          for (std::size_t k = 0; k < kAmpKernel; ++k)
            layer.weight[k][c][o] = weight[(o * kAmpChannels + c) * kAmpKernel + k];
        }
      }
    }
  }

  std::size_t nbytes() const {
    std::size_t bytes = sizeof(*this);
    for (const HandLayer& layer : layers_) bytes += sizeof(layer) + layer.past.size() * sizeof(Frame);
    return bytes;
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

// The thread's context switches so far.
std::int64_t switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

double percentile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0.0;
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

struct Row {
  const char* name;
  std::int64_t latency = 0;  // in samples
  double block_ms = 0.0;
  std::size_t memory_bytes = 0;
};

void measure(const Row& row, std::int64_t calls, const std::function<void()>& call) {
  for (int i = 0; i < 200; ++i) call();
  std::vector<double> all, whole, cut;  // cut: calls with a context switch
  for (std::vector<double>* times : {&all, &whole, &cut}) times->reserve(static_cast<std::size_t>(calls));
  for (std::int64_t i = 0; i < calls; ++i) {
    const std::int64_t before = switches();
    const double begin = now_ms();
    call();
    const double time = now_ms() - begin;
    all.push_back(time);
    (switches() == before ? whole : cut).push_back(time);
  }
  for (std::vector<double>* times : {&all, &whole, &cut}) std::sort(times->begin(), times->end());
  const double late = percentile(whole, 0.9999);
  std::printf("| %s | %lld | %.3f | %.0f | %.4f | %.4f | %.1f | %.4f | %.4f | %zu | %.4f |\n", row.name,
              static_cast<long long>(row.latency), row.block_ms, static_cast<double>(row.memory_bytes) / 1024.0,
              percentile(whole, 0.5), late, 100.0 * late / row.block_ms, percentile(whole, 1.0),
              percentile(all, 0.9999), cut.size(), percentile(cut, 1.0));
}

void measure(const char* name, std::int64_t calls, nn::Streaming& stream, const Tensor& block, double rate) {
  Tensor out = stream(block);
  measure({.name = name,
           .latency = stream.latency(),
           .block_ms = 1e3 * static_cast<double>(out.size(-1)) / rate,
           .memory_bytes = stream.nbytes()},
          calls, [&] { stream.process(block, out); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t calls = argc > 1 ? std::stoll(argv[1]) : 20000;
  adjoint::set_num_threads(1);
  adjoint::manual_seed(1);
  const Tensor block = Tensor::randn({1, 1, kBlock});
  std::puts(
      "| network | latency, samples | a block lasts, ms | memory, KiB | median, ms | 99.99 %, ms | share of a block, % | "
      "longest, ms | 99.99 % of all calls, ms | calls with a switch | longest of them, ms |");
  std::puts("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");

  Amp amp({.channels = kAmpChannels, .layers = 10});
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
  measure({.name = "amplifier, by hand", .block_ms = 1e3 * kBlock / kRate, .memory_bytes = by_hand.nbytes()}, calls,
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
