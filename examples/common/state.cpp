#include "common/state.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/safetensors.h>

#include <fmt/format.h>

namespace examples {
namespace {

namespace nn = adjoint::nn;
using adjoint::NamedTensors;
using Json = nlohmann::json;

constexpr const char *kSettings = "settings", *kValues = "values";

Json parsed(const nn::Safetensors& file, const char* key, const std::filesystem::path& path) {
  const auto entry = file.metadata.find(key);
  if (entry == file.metadata.end())
    throw adjoint::Error(fmt::format("'{}' is not a checkpoint of such a training", path.string()));
  return Json::parse(entry->second);
}

}  // namespace

void State::add(const std::string& name, adjoint::data::DataLoader& loader) {
  values_.push_back({name,
                     [&loader] {
                       const auto at = loader.state();
                       return Json{{"epoch", at.epoch},       {"batch", at.batch}, {"batch_size", at.batch_size},
                                   {"examples", at.examples}, {"order", at.order}, {"drop_last", at.drop_last}};
                     },
                     [&loader](const Json& json) {
                       adjoint::data::DataLoaderState at{.epoch = json.at("epoch"), .batch = json.at("batch")};
                       if (json.contains("batch_size")) {  // older files have the place alone
                         at.batch_size = json["batch_size"];
                         at.examples = json.at("examples");
                         at.order = json.at("order");
                         at.drop_last = json.at("drop_last");
                         at.seed = loader.state().seed;  // each rank has its own, and the file is rank 0's
                       }
                       loader.load_state(at);
                     }});
}

void State::require(const std::string& name, std::uint64_t value, const std::string& what) {
  values_.push_back({name, [value] { return Json(value); },
                     [value, what](const Json& json) {
                       if (json.get<std::uint64_t>() != value) throw adjoint::Error(what);
                     }});
}

void State::require(const std::string& name, const std::string& value, const std::string& what) {
  values_.push_back({name, [value] { return Json(value); },
                     [value, what](const Json& json) {
                       const auto found = json.get<std::string>();
                       if (found != value)
                         throw adjoint::Error(fmt::format("{} must be {}; got {}", what, value, found));
                     },
                     true});
}

void State::save(const std::filesystem::path& path, const Json& settings, nn::BackgroundWriter& writer) const {
  NamedTensors tensors;
  for (const Part& part : parts_) {
    for (auto& [name, tensor] : part.get()) tensors.emplace_back(part.name + '.' + name, tensor);
  }
  Json values;
  for (const Value& value : values_) values[value.name] = value.get();
  const adjoint::Generator& generator = adjoint::default_generator();
  values["generator"] = {{"seed", generator.seed()}, {"offset", generator.offset()}};
  const nn::Metadata metadata{{kSettings, settings.dump()}, {kValues, values.dump()}};
  writer.start("checkpoint", tensors,
               [path, metadata](const NamedTensors& copies) { nn::save_safetensors(path, copies, metadata); });
}

Json State::settings(const std::filesystem::path& path) { return parsed(nn::load_safetensors(path), kSettings, path); }

Json State::values(const std::filesystem::path& path) { return parsed(nn::load_safetensors(path), kValues, path); }

void State::load(const std::filesystem::path& path) {
  const nn::Safetensors file = nn::load_safetensors(path);
  const Json values = parsed(file, kValues, path);
  for (const Value& value : values_) {
    if (!value.added || values.contains(value.name)) value.set(values.at(value.name));
  }
  for (const Part& part : parts_) {
    NamedTensors own;
    const std::string prefix = part.name + '.';
    for (const auto& [name, tensor] : file.tensors) {
      if (name.starts_with(prefix)) own.emplace_back(name.substr(prefix.size()), tensor);
    }
    part.set(own);
  }
  const Json& generator = values.at("generator");
  adjoint::default_generator() = adjoint::Generator(generator.at("seed").get<std::uint64_t>());
  adjoint::default_generator().seek(generator.at("offset"));
}

}  // namespace examples
