#include "generator.h"

#include "common/model_file.h"

#include "mel.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numbers>
#include <utility>

namespace vocoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint vocoder";
constexpr std::int64_t kOuterKernel = 7;

/// A convolution with an odd kernel, whose result is as long as its input.
nn::Conv1d conv(std::int64_t in, std::int64_t out, std::int64_t kernel_size, std::int64_t dilation = 1) {
  return nn::weight_norm(
      nn::Conv1d(in, out,
                 {.kernel_size = kernel_size, .padding = dilation * (kernel_size - 1) / 2, .dilation = dilation}));
}

const Network& network_of(const std::string& name) {
  const auto found =
      std::find_if(networks().begin(), networks().end(), [&](const Network& n) { return n.name == name; });
  if (found == networks().end()) throw adjoint::Error(fmt::format("vocoder: there is no network '{}'", name));
  return *found;
}

Network checked(const GeneratorOptions& o) {
  Network network = network_of(o.network);
  if (o.channels != 0) network.channels = o.channels;
  const std::int64_t divisor = std::int64_t{1} << network.rates.size();
  if (network.channels < divisor || network.channels > 4096 || network.channels % divisor != 0) {
    throw adjoint::Error(fmt::format("vocoder: channels must be a multiple of {} up to 4096 for network {}; got {}",
                                     divisor, network.name, network.channels));
  }
  check_sample_rate(o.sample_rate);
  if (o.clock < 0 || o.clock > 256 || o.clock % 2 != 0)
    throw adjoint::Error(fmt::format("vocoder: clock must be even, from 0 to 256; got {}", o.clock));
  return network;
}

}  // namespace

const std::vector<Network>& networks() {
  static const std::vector<std::int64_t> k3711{3, 7, 11};
  static const std::vector<std::vector<std::int64_t>> same(3, {1, 3, 5}), rising{{1, 2}, {2, 6}, {3, 12}};
  static const std::vector<Network> table{
      {"v1", 512, {8, 8, 2, 2}, k3711, same, true},
      {"v2", 128, {8, 8, 2, 2}, k3711, same, true},
      {"v3", 256, {8, 8, 4}, {3, 5, 7}, rising, false},
      {"tiny", 64, {8, 8, 4}, {3, 5, 7}, rising, false},
  };
  return table;
}

ResBlock::ResBlock(std::int64_t channels, std::int64_t kernel_size, const std::vector<std::int64_t>& dilations,
                   bool paired)
    : Module("ResBlock") {
  for (const std::int64_t dilation : dilations) {
    convs1.append(conv(channels, channels, kernel_size, dilation));
    if (paired) convs2.append(conv(channels, channels, kernel_size));
  }
}

Tensor ResBlock::operator()(const Tensor& input) const {
  const auto leaky = adjoint::Activation::leaky_relu(Generator::kSlope);
  Tensor x = input;
  for (std::size_t i = 0; i < convs1.size(); ++i) {
    const Tensor active = adjoint::leaky_relu(x, Generator::kSlope);
    x = x + (convs2.size() > 0 ? convs2[i](convs1[i].activated(active, leaky)) : convs1[i](active));
  }
  return x;
}

nn::Conv1d Generator::pre() const { return conv(kMels + options_.clock, network_.channels, kOuterKernel); }
nn::Conv1d Generator::post() const { return conv(network_.channels >> network_.rates.size(), 1, kOuterKernel); }

Generator::Generator(const GeneratorOptions& options)
    : Module("Generator"), options_(options), network_(checked(options)) {
  std::int64_t channels = network_.channels;
  for (const std::int64_t rate : network_.rates) {
    ups.append(nn::weight_norm(
        nn::ConvTranspose1d(channels, channels / 2, {.kernel_size = 2 * rate, .stride = rate, .padding = rate / 2})));
    channels /= 2;
    for (std::size_t i = 0; i < network_.kernel_sizes.size(); ++i)
      resblocks.append(ResBlock(channels, network_.kernel_sizes[i], network_.dilations[i], network_.paired));
  }
}

Tensor Generator::inputs(const Tensor& mel, std::int64_t first) const {
  const Tensor levels = (mel + 5.0) / 3.0;
  const std::int64_t period = options_.clock;
  if (period == 0) return levels;
  const std::int64_t from = first % period, frames = mel.size(-1), turns = (from + frames + period - 1) / period;
  const auto numbers = [&](std::int64_t begin, std::int64_t end) {
    return Tensor::arange(static_cast<double>(begin), static_cast<double>(end), 1.0, levels.options());
  };
  const Tensor order = numbers(1, period / 2 + 1).unsqueeze(1),
               angle = 2.0 * std::numbers::pi / static_cast<double>(period) * order * numbers(0, period);
  const Tensor clock =
      adjoint::cat({adjoint::cos(angle), adjoint::sin(angle)}, 0).repeat({1, turns}).narrow(1, from, frames);
  return adjoint::cat({levels, clock.unsqueeze(0).expand({mel.size(0), period, frames})}, 1);
}

Tensor Generator::operator()(const Tensor& mel) const { return sound_of(inputs(mel)); }

Tensor Generator::sound_of(const Tensor& inputs) const {
  Tensor x = conv_pre(inputs);
  const std::size_t blocks = network_.kernel_sizes.size();
  for (std::size_t i = 0; i < ups.size(); ++i) {
    x = ups[i](adjoint::leaky_relu(x, kSlope));
    Tensor sum = resblocks[i * blocks](x);
    for (std::size_t j = 1; j < blocks; ++j) sum = sum + resblocks[i * blocks + j](x);
    x = sum / static_cast<double>(blocks);
  }
  return conv_post.activated(adjoint::leaky_relu(x, kSlope), adjoint::Activation::tanh());
}

std::int64_t Generator::frames_around() const {
  std::int64_t reach = kOuterKernel / 2;  // in elements, from the last layer to the first
  for (std::size_t i = network_.rates.size(); i-- > 0;) {
    std::int64_t widest = 0;
    for (std::size_t j = 0; j < network_.kernel_sizes.size(); ++j) {
      std::int64_t sum = 0;
      for (const std::int64_t dilation : network_.dilations[j])
        sum += network_.kernel_sizes[j] / 2 * (dilation + (network_.paired ? 1 : 0));
      widest = std::max(widest, sum);
    }
    // A transposed convolution reads the element below and one beside it.
    const std::int64_t rate = network_.rates[i];
    reach = (reach + widest + rate - 1) / rate + 1;
  }
  return reach + kOuterKernel / 2;
}

void remove_weight_norms(Generator& model) {
  model.visit<nn::Conv1d>([](auto& layer) { nn::remove_weight_norm(layer); });
  model.visit<nn::ConvTranspose1d>([](auto& layer) { nn::remove_weight_norm(layer); });
}

void save_model(const std::filesystem::path& path, const Generator& model) {
  const GeneratorOptions& o = model.options();
  examples::save_model(
      path, model, kArchitecture,
      {{"network", o.network}, {"channels", o.channels}, {"sample_rate", o.sample_rate}, {"clock", o.clock}});
}

Generator load_model(const std::filesystem::path& path) {
  return examples::load_model("vocoder", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                Generator model =
                                    examples::restored(Generator({.network = options.at("network"),
                                                                  .channels = options.at("channels"),
                                                                  .sample_rate = options.at("sample_rate"),
                                                                  .clock = options.value("clock", std::int64_t{0})}),
                                                       tensors);
                                remove_weight_norms(model);
                                return model;
                              });
}

}  // namespace vocoder
