#include "model.h"

#include "vae.h"
#include "vqvae.h"

#include <adjoint/core/base/error.h>
#include <adjoint/nn/safetensors.h>

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
  nn::save_safetensors(path, model.module(), {{"architecture", kArchitecture}, {"options", model.options().dump()}});
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path) {
  const nn::Safetensors file = nn::load_safetensors(path);
  const auto architecture = file.metadata.find("architecture");
  const auto found = file.metadata.find("options");
  if (architecture == file.metadata.end() || architecture->second != kArchitecture || found == file.metadata.end())
    throw adjoint::Error(fmt::format("autoencoder: '{}' is not a model of this program", path.string()));
  try {
    std::unique_ptr<Model> model = made(nlohmann::json::parse(found->second));
    model->module().load_state_dict(file.tensors);
    model->module().eval();
    return model;
  } catch (const nlohmann::json::exception& error) {
    throw adjoint::Error(fmt::format("autoencoder: cannot load '{}': {}", path.string(), error.what()));
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw adjoint::Error(fmt::format("autoencoder: cannot load '{}': {}", path.string(), error.what()));
  }
}

}  // namespace autoencoder
