// The state that lets a training resume bit for bit, by name: tensors, and values as JSON.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/data/loader.h>
#include <adjoint/nn/background_writer.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace examples {

class State {
 public:
  /// Adds an object with state_dict() and load_state_dict(): a module, optimiser, schedule, EMA. It must outlive this.
  template <class T>
  requires requires(T& object) { object.load_state_dict(object.state_dict()); }
  void add(const std::string& name, T& object) {
    parts_.push_back({name, [&object] { return object.state_dict(); },
                      [&object](const adjoint::NamedTensors& state) { object.load_state_dict(state); }});
  }
  /// Adds a value that converts to JSON and back: a number, text, vector or structure of them. It must outlive this.
  template <class T>
  requires(!requires(T & object) { object.state_dict(); }) void add(const std::string& name, T& value) {
    values_.push_back({name, [&value] { return nlohmann::json(value); },
                       [&value](const nlohmann::json& json) { value = json.get<T>(); }});
  }
  /// Adds a loader's place in its sequence of batches.
  void add(const std::string& name, adjoint::data::DataLoader& loader);
  /// Adds a number that must be the same when the training resumes, such as a fingerprint of its data. `what` appears
  /// in the error.
  void require(const std::string& name, std::uint64_t value, const std::string& what);
  /// Adds a text that must be the same; the error is "<what> must be <value>; got <the checkpoint's>". Older
  /// checkpoints may lack it.
  void require(const std::string& name, const std::string& value, const std::string& what);

  /// Lets `writer` write the file atomically, with the default generator's state, all as of this call. Throws the error
  /// of the writer's previous write, if it failed.
  void save(const std::filesystem::path& path, const nlohmann::json& settings,
            adjoint::nn::BackgroundWriter& writer) const;
  /// The settings that a checkpoint was written with. Throws Error, naming the file, if it is not a checkpoint.
  static nlohmann::json settings(const std::filesystem::path& path);
  /// Reads the values of the file at `path`, by name. Throws Error, naming the file, for anything but a state.
  static nlohmann::json values(const std::filesystem::path& path);
  /// Throws Error or nlohmann::json::exception if something is missing or does not fit.
  void load(const std::filesystem::path& path);

 private:
  struct Part {
    std::string name;
    std::function<adjoint::NamedTensors()> get;
    std::function<void(const adjoint::NamedTensors&)> set;
  };
  struct Value {
    std::string name;
    std::function<nlohmann::json()> get;
    std::function<void(const nlohmann::json&)> set;
    bool added = false;  // older checkpoints may lack it
  };
  std::vector<Part> parts_;
  std::vector<Value> values_;
};

}  // namespace examples
