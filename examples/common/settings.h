// Settings: the values that a training depends on. Each is declared once: an option of the command line, its bounds,
// its value with --quick, and its place in the checkpoint, from which --resume reads it.
#pragma once

#include <adjoint/core/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace examples {

/// One setting: a number, a flag or a text. The variable that it was made with holds its value.
class SettingBase {
 public:
  virtual ~SettingBase() = default;
  virtual void save(nlohmann::json& to) const = 0;
  /// Throws Error if the value is missing, nlohmann::json::exception if it has another type.
  virtual void load(const nlohmann::json& from) = 0;
  virtual void make_quick() = 0;
  /// Throws Error, naming the option, for a value that it must not have.
  virtual void check(const std::string& program) const = 0;
  CLI::Option& option() const { return *option_; }

 protected:
  explicit SettingBase(CLI::Option* option) : option_(option) {}
  const std::string& name() const { return option_->get_lnames().front(); }

 private:
  CLI::Option* option_;  // owned by CLI::App
};

template <class T>
class Setting final : public SettingBase {
 public:
  Setting(CLI::Option* option, T& value) : SettingBase(option), value_(value) {}
  /// Inclusive bounds.
  Setting& range(std::type_identity_t<T> low, std::type_identity_t<T> high) {
    range_ = {low, high};
    return *this;
  }
  /// The allowed values.
  Setting& choices(std::vector<T> values) {
    choices_ = std::move(values);
    return *this;
  }
  /// The value with --quick, if the command line does not set one.
  Setting& quick(std::type_identity_t<T> value) {
    quick_ = std::move(value);
    return *this;
  }

  /// Checkpoints that are older than this setting resume with its default.
  Setting& added() {
    added_ = true;
    return *this;
  }

  void save(nlohmann::json& to) const override { to[name()] = value_; }
  void load(const nlohmann::json& from) override {
    if (!from.contains(name())) {
      if (added_) return;
      throw adjoint::Error(fmt::format("it has no --{} and belongs to another program", name()));
    }
    value_ = from.at(name()).template get<T>();
  }
  void make_quick() override {
    if (quick_ && option().count() == 0) value_ = *quick_;
  }
  void check(const std::string& program) const override {
    if (range_ && !(value_ >= range_->first && value_ <= range_->second)) {
      throw adjoint::Error(fmt::format("{}: --{} must be from {} to {}; got {}", program, name(), range_->first,
                                       range_->second, value_));
    }
    if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), value_) == choices_.end()) {
      throw adjoint::Error(
          fmt::format("{}: --{} must be one of {}; got '{}'", program, name(), fmt::join(choices_, ", "), value_));
    }
    if constexpr (std::is_same_v<T, std::string>) {
      if (choices_.empty() && option().count() > 0 && value_.empty())
        throw adjoint::Error(fmt::format("{}: --{} must not be empty; got ''", program, name()));
    }
  }

 private:
  T& value_;
  std::optional<std::pair<T, T>> range_;
  std::vector<T> choices_;
  std::optional<T> quick_;
  bool added_ = false;
};

/// The settings of a program's `train`.
class Settings {
 public:
  Settings(std::string program, CLI::App& train) : program_(std::move(program)), train_(train) {}

  /// The option `name` ("--features"); its default is the current content of `value`; a bool is a flag. `value` must
  /// outlive this.
  template <class T>
  Setting<T>& add(const std::string& name, T& value, const std::string& text) {
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<T, bool>) {
      option = train_.add_flag(name, value, text);
    } else if constexpr (requires { value.empty(); }) {
      option = train_.add_option(name, value, text);
      if (!value.empty()) option->capture_default_str();
    } else {
      option = train_.add_option(name, value, text)->capture_default_str();
    }
    auto setting = std::make_unique<Setting<T>>(option, value);
    Setting<T>& reference = *setting;
    all_.push_back(std::move(setting));
    return reference;
  }

  void make_quick() {
    for (const auto& setting : all_) setting->make_quick();
  }
  /// Throws Error for the first setting with a value that is not allowed.
  void check() const {
    for (const auto& setting : all_) setting->check(program_);
  }
  nlohmann::json save() const {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& setting : all_) setting->save(json);
    return json;
  }
  /// Throws nlohmann::json::exception for JSON that is not an object of these settings, and Error as check() does.
  void load(const nlohmann::json& json) {
    for (const auto& setting : all_) setting->load(json);
    check();
  }
  const std::vector<std::unique_ptr<SettingBase>>& all() const { return all_; }

 private:
  std::string program_;
  CLI::App& train_;
  std::vector<std::unique_ptr<SettingBase>> all_;
};

}  // namespace examples
