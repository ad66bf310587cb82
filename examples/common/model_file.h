// Files of trained models: parameters and buffers, and as metadata the architecture and the options.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/safetensors.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <filesystem>
#include <string>

namespace examples {

/// `architecture` names the kind of model, such as "adjoint gan generator".
inline void save_model(const std::filesystem::path& path, const adjoint::nn::Module& model,
                       const std::string& architecture, const nlohmann::json& options) {
  adjoint::nn::save_safetensors(path, model, {{"architecture", architecture}, {"options", options.dump()}});
}

/// Returns `model` in eval mode, with the state of `tensors`.
template <class M>
M restored(M model, const adjoint::NamedTensors& tensors) {
  model.load_state_dict(tensors);
  model.eval();
  return model;
}

/// read(options, tensors) of such a file, which makes the model. Throws Error, naming the program and the file, if the
/// file has another architecture, and for options and tensors that do not fit.
template <class Read>
auto load_model(const std::string& program, const std::filesystem::path& path, const std::string& architecture,
                Read&& read) {
  const adjoint::nn::Safetensors file = adjoint::nn::load_safetensors(path);
  const auto found = file.metadata.find("architecture"), options = file.metadata.find("options");
  if (found == file.metadata.end() || found->second != architecture || options == file.metadata.end())
    throw adjoint::Error(fmt::format("{}: '{}' is not a model of this program", program, path.string()));
  const auto naming = [&](const std::exception& error) {
    return adjoint::Error(fmt::format("{}: cannot load '{}': {}", program, path.string(), error.what()));
  };
  try {
    return read(nlohmann::json::parse(options->second), file.tensors);
  } catch (const nlohmann::json::exception& error) {
    throw naming(error);
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw naming(error);
  }
}

}  // namespace examples
