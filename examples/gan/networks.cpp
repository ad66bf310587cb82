#include "networks.h"

#include "common/model_file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/reparametrize.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace gan {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr const char* kArchitecture = "adjoint gan generator";
constexpr double kDeviation = 0.02;  // of DCGAN's first weights
constexpr std::int64_t kPicture = 3;

GeneratorOptions checked(const GeneratorOptions& o) {
  for (const auto& [name, value] : {std::pair{"latent", o.latent}, std::pair{"features", o.features}}) {
    if (value < 1 || value > 1024)
      throw adjoint::Error(fmt::format("gan: {} must be from 1 to 1024; got {}", name, value));
  }
  return o;
}

}  // namespace

nn::Sequential Generator::layers(const GeneratorOptions& o) {
  nn::Sequential layers;
  std::int64_t in = o.latent;
  for (const std::int64_t out : {4 * o.features, 2 * o.features, o.features}) {
    // From one pixel to 4 x 4, then twice the resolution each.
    const bool first = in == o.latent && layers.size() == 0;
    layers.append(
        nn::ConvTranspose2d(in, out,
                            {.kernel_size = 4, .stride = first ? 1 : 2, .padding = first ? 0 : 1, .bias = false}));
    layers.append(nn::BatchNorm2d(out));
    layers.append(nn::ReLU());
    in = out;
  }
  layers.append(nn::ConvTranspose2d(in, kPicture, {.kernel_size = 4, .stride = 2, .padding = 1}));
  layers.append(nn::Tanh());
  layers.visit<nn::ConvTranspose2d>([](auto& conv) { nn::init::normal_(conv.weight, 0.0, kDeviation); });
  return layers;
}

nn::Sequential Discriminator::layers(std::int64_t features, Normalisation normalisation) {
  nn::Sequential layers;
  const auto append = [&](nn::Conv2d conv) {
    if (normalisation == Normalisation::kBatch) nn::init::normal_(conv.weight, 0.0, kDeviation);
    layers.append(normalisation == Normalisation::kSpectral ? nn::spectral_norm(std::move(conv)) : std::move(conv));
  };
  std::int64_t in = kPicture;
  for (const std::int64_t out : {features, 2 * features, 4 * features}) {
    const bool normalised = normalisation == Normalisation::kBatch && in != kPicture;
    append(nn::Conv2d(in, out, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = !normalised}));
    if (normalised) layers.append(nn::BatchNorm2d(out));
    layers.append(nn::LeakyReLU({.negative_slope = 0.2}));
    in = out;
  }
  append(nn::Conv2d(in, 1, {.kernel_size = 4}));
  return layers;
}

Generator::Generator(const GeneratorOptions& options) : Module("Generator"), options_(checked(options)) {}

Tensor Generator::operator()(const Tensor& noise) const { return main_(noise.unsqueeze(-1).unsqueeze(-1)); }

Discriminator::Discriminator(std::int64_t features, Normalisation normalisation)
    : Module("Discriminator"), features_(features), normalisation_(normalisation) {}

Tensor Discriminator::operator()(const Tensor& pictures) const { return main_(pictures).reshape({-1}); }

void save_model(const std::filesystem::path& path, const Generator& model) {
  const GeneratorOptions& o = model.options();
  examples::save_model(path, model, kArchitecture, {{"latent", o.latent}, {"features", o.features}});
}

Generator load_model(const std::filesystem::path& path) {
  return examples::load_model("gan", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                return examples::restored(Generator({.latent = options.at("latent"),
                                                                     .features = options.at("features")}),
                                                          tensors);
                              });
}

}  // namespace gan
