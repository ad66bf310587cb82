// Program: the command line that all example programs share, and their main().
//
//   int main(int argc, char** argv) {
//     examples::Program program("denoise", "Trains a network that takes the noise out of pictures.");
//     denoise::Options options;
//     options.add_to(program.settings());
//     program.on_train([&](const examples::Run& run) { return std::make_unique<denoise::Trainer>(options, run); });
//     std::string model, from, to;
//     CLI::App& clean = program.verb("clean", "Take the noise out of a picture",
//                                    [&](adjoint::Device device) { denoise::clean(model, from, to, device); });
//     clean.add_option("model", model, "model.safetensors of a training")->required();
//     ...
//     return program.main(argc, argv);
//   }
#pragma once

#include "common/settings.h"
#include "common/training.h"

#include <adjoint/core/base/device.h>

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace examples {

class Program {
 public:
  Program(std::string name, const std::string& description);

  const std::string& name() const { return name_; }
  /// The settings to which the program adds its own options of `train`. The common options are already registered.
  Settings& settings() { return settings_; }
  /// Before main(), the defaults, which may be changed; afterwards, the values from the command line.
  Run& defaults() { return run_; }
  /// The common settings whose value for --quick a program chooses: program.steps().quick(300).
  Setting<std::int64_t>& steps() { return *steps_; }
  Setting<std::int64_t>& batch() { return *batch_; }
  Setting<std::int64_t>& test_every() { return *test_every_; }
  Setting<double>& lr() { return *lr_; }
  Setting<std::string>& precision() { return *precision_; }

  /// Adds --memory-format to `train`, which sets Run::memory_format, and to the verbs that are added afterwards.
  void add_memory_format();
  /// In a verb's action, the format of its networks. Verbs compute in float32.
  adjoint::MemoryFormat memory_format() const { return run_.memory_format; }

  /// Makes the training, once the options are known. Throws Error if there is nothing to train on.
  void on_train(std::function<std::unique_ptr<Training>(const Run& run)> make) { make_ = std::move(make); }
  /// A verb beside `train`. It has --device.
  CLI::App& verb(const std::string& name, const std::string& description,
                 std::function<void(adjoint::Device device)> action);

  // `train --resume --steps 2000` makes a training longer, and --memory-format may differ from the checkpoint's. A new
  // training begins in a folder that holds another one only with --overwrite. Without --test-every there are five tests
  // at least.

  /// Returns the exit code: 0; 1 after an error, which is one line on standard error; 2 for wrong usage; 128 plus the
  /// signal if a training was interrupted.
  int main(int argc, char** argv);

 private:
  struct Verb {
    CLI::App* app;
    std::function<void(adjoint::Device)> action;
  };
  int dispatch(int argc, char** argv);
  int train();
  int wrong_usage(const CLI::ParseError& error) const;
  void load_settings();
  void check_not_held() const;
  adjoint::Device device() const;
  void choose_format(adjoint::Device device, const std::string& precision);

  std::string name_;
  CLI::App app_;
  CLI::App* train_;
  Run run_;
  Settings settings_;
  Setting<std::int64_t>*steps_, *batch_, *test_every_;
  Setting<double>* lr_;
  Setting<std::string>*precision_, *format_ = nullptr;
  std::string device_ = "auto", memory_format_ = "auto";
  bool resume_ = false, overwrite_ = false;
  std::function<std::unique_ptr<Training>(const Run&)> make_;
  std::vector<Verb> verbs_;
};

}  // namespace examples
