#include "model.h"

#include "common/model_file.h"

#include "vae.h"
#include "vqvae.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

namespace autoencoder {
namespace {

namespace nn = adjoint::nn;

constexpr const char* kArchitecture = "adjoint autoencoder";

std::unique_ptr<Model> made(const nlohmann::json& options) {
  const std::string kind = options.at("kind");
  if (kind == "vae")
    return std::make_unique<Vae>(VaeOptions{.latent = options.at("latent"), .features = options.at("features")});
  if (kind == "vqvae") {
    return std::make_unique<VqVae>(
        VqVaeOptions{.codes = options.at("codes"), .width = options.at("width"), .features = options.at("features")});
  }
  throw adjoint::Error(fmt::format("its kind must be vae or vqvae; got '{}'", kind));
}

}  // namespace

void check_option(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    throw adjoint::Error(fmt::format("autoencoder: {} must be from {} to {}; got {}", name, low, high, value));
}

void save_model(const std::filesystem::path& path, const Model& model) {
  examples::save_model(path, model.module(), kArchitecture, model.options());
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path) {
  return examples::load_model("autoencoder", path, kArchitecture,
                              [](const nlohmann::json& options, const adjoint::NamedTensors& tensors) {
                                std::unique_ptr<Model> model = made(options);
                                model->module().load_state_dict(tensors);
                                model->module().eval();
                                return model;
                              });
}

}  // namespace autoencoder
