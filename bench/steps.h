// Times whole training steps of three networks: one protocol for Adjoint and for libtorch, so that both do the same
// work.
//
//   bench_steps [--networks sr,unet,unet3d] [--precisions tf32,bf16] [--layouts contiguous,channels_last]
//               [--modes plain,graph] [--device cuda] [--width N] [--batch N] [--size N] [--steps N] [--warmup N]
//               [--tiny]
//
// sr: super-resolution by 2 with 8 residual blocks, L1 loss. unet and unet3d: a U-Net of 4 levels with BatchNorm, on
// images and on volumes, binary cross entropy of logits. All train by Adam, on one batch. tf32 is float32 with products
// in TF32; bf16 is autocast to bfloat16, with float32 weights. --tiny: sizes that a CPU trains in seconds.
//
// A framework gives modes(on_gpu), the kinds of step that it has; synchronize(on_gpu); peak_bytes(on_gpu), the most
// memory of live tensors and workspaces since the last call, or 0 if it does not count them; and Training(case,
// on_gpu), with step(), which does not wait for the device, and loss(), the last step's, which waits.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace steps {

using Extents = std::vector<std::int64_t>;

constexpr std::int64_t kBlocks = 8;                                  // of sr
constexpr std::array<std::int64_t, 5> kMultiples = {1, 2, 4, 8, 8};  // unet's channels by level, in widths
constexpr std::int64_t kBatchesOfSteps = 6;                          // the median is taken over these
constexpr double kLearningRate = 1e-4;

/// A network, and what it trains on unless an option says otherwise.
struct Network {
  std::string name;
  int rank;  // spatial axes
  std::int64_t batch, size, width;
};
inline const std::array<Network, 3> kNetworks = {
    {{"sr", 2, 8, 256, 64}, {"unet", 2, 16, 256, 64}, {"unet3d", 3, 2, 96, 32}}};

/// A network's training.
struct Case {
  std::string network;  // of kNetworks
  int rank = 2;
  std::string precision;  // "tf32" or "bf16"
  std::string layout;     // "contiguous" or "channels_last"
  std::string mode;       // one of Framework::modes()
  std::int64_t batch = 0, size = 0, width = 0;

  bool is_sr() const { return network == "sr"; }
  bool bf16() const { return precision == "bf16"; }
  bool channels_last() const { return layout == "channels_last"; }
  bool graphed() const { return mode == "graph"; }
  Extents input() const { return shape(3, size); }
  Extents target() const { return is_sr() ? shape(3, 2 * size) : shape(1, size); }
  Extents shape(std::int64_t channels, std::int64_t extent) const {
    Extents result{batch, channels};
    result.resize(static_cast<std::size_t>(rank) + 2, extent);
    return result;
  }
};

inline std::int64_t elements(const Extents& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// Numbers from U(-bound, bound), the same in both programs (splitmix64).
inline std::vector<float> uniform(const Extents& shape, std::uint64_t seed, double bound) {
  std::vector<float> values(static_cast<std::size_t>(elements(shape)));
  std::uint64_t state = seed << 32;
  for (float& value : values) {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    value = static_cast<float>(bound * (static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1.0));
  }
  return values;
}

inline std::vector<float> input_values(const Case& c) { return uniform(c.input(), 1, 1.0); }
inline std::vector<float> target_values(const Case& c) {
  // sr's targets are as small as its first results, so that the loss shows if both programs compute the same.
  std::vector<float> values = uniform(c.target(), 2, c.is_sr() ? 0.1 : 1.0);
  if (!c.is_sr()) {
    for (float& value : values) value = value > 0.0f ? 1.0f : 0.0f;
  }
  return values;
}

/// The first values of filter number `index`, from U(-b, b), b = 1 / sqrt(elements / shape[0]).
inline std::vector<float> filter_values(const Extents& shape, std::size_t index) {
  const auto fan = static_cast<double>(elements(shape) / shape[0]);
  return uniform(shape, 3 + index, 1.0 / std::sqrt(fan));
}

struct Options {
  std::vector<std::string> networks{"sr", "unet", "unet3d"}, precisions{"tf32", "bf16"},
      layouts{"contiguous", "channels_last"}, modes;
  bool on_gpu = true;
  std::int64_t width = 0, batch = 0, size = 0, steps = 30, warmup = 10;  // 0: the network's own
};

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

inline Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--tiny") {
      o.width = 8, o.batch = 2, o.size = 32, o.steps = 6, o.warmup = 4;
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument("steps: no value for '" + name + "'");
    const std::string value = argv[++i];
    if (name == "--networks")
      o.networks = split(value);
    else if (name == "--precisions")
      o.precisions = split(value);
    else if (name == "--layouts")
      o.layouts = split(value);
    else if (name == "--modes")
      o.modes = split(value);
    else if (name == "--device")
      o.on_gpu = value == "cuda";
    else if (name == "--width")
      o.width = std::stoll(value);
    else if (name == "--batch")
      o.batch = std::stoll(value);
    else if (name == "--size")
      o.size = std::stoll(value);
    else if (name == "--steps")
      o.steps = std::stoll(value);
    else if (name == "--warmup")
      o.warmup = std::stoll(value);
    else
      throw std::invalid_argument("steps: unknown option '" + name + "'");
  }
  return o;
}

/// Prints a row: the case, the median milliseconds of a step, the losses of the first step and the last, and the peak
/// of memory in MB.
template <class Framework>
void run(const Case& c, const Options& o) {
  using Clock = std::chrono::steady_clock;
  Framework::peak_bytes(o.on_gpu);
  typename Framework::Training training(c, o.on_gpu);
  training.step();
  const double first = training.loss();
  for (std::int64_t i = 1; i < o.warmup; ++i) training.step();
  const std::int64_t together = std::max<std::int64_t>(1, o.steps / kBatchesOfSteps);
  std::vector<double> ms;
  for (std::int64_t done = 0; done < o.steps; done += together) {
    Framework::synchronize(o.on_gpu);
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < together; ++i) training.step();
    Framework::synchronize(o.on_gpu);
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count() /
                 static_cast<double>(together));
  }
  std::nth_element(ms.begin(), ms.begin() + std::ssize(ms) / 2, ms.end());
  std::printf("%s %s %s %s %.4f %.6f %.6f %.0f\n", c.network.c_str(), c.precision.c_str(), c.layout.c_str(),
              c.mode.c_str(), ms[ms.size() / 2], first, training.loss(),
              static_cast<double>(Framework::peak_bytes(o.on_gpu)) / 1e6);
  std::fflush(stdout);
}

template <class Framework>
int run_all(int argc, char** argv) {
  try {
    const Options o = parse(argc, argv);
    const std::vector<std::string> has = Framework::modes(o.on_gpu);
    for (const std::string& name : o.networks) {
      const auto found =
          std::find_if(kNetworks.begin(), kNetworks.end(), [&](auto& each) { return each.name == name; });
      if (found == kNetworks.end()) throw std::invalid_argument("steps: no network '" + name + "'");
      const auto chosen = [](std::int64_t option, std::int64_t own) { return option > 0 ? option : own; };
      for (const std::string& precision : o.precisions) {
        for (const std::string& layout : o.layouts) {
          for (const std::string& mode : has) {
            if (!o.modes.empty() && std::find(o.modes.begin(), o.modes.end(), mode) == o.modes.end()) continue;
            run<Framework>({name, found->rank, precision, layout, mode, chosen(o.batch, found->batch),
                            chosen(o.size, found->size), chosen(o.width, found->width)},
                           o);
          }
        }
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace steps
