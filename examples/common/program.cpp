#include "common/program.h"

#include "common/arithmetic.h"
#include "common/interrupt.h"
#include "common/run_folder.h"

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/error.h>
#include <adjoint/core/random.h>
#include <adjoint/ops/distributed/collectives.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace examples {
namespace {

constexpr int kFailed = 1, kUsage = 2, kSignal = 128;  // a shell's exit code of a program that a signal ended
constexpr std::int64_t kMany = 1'000'000'000;

/// Has every whole number of the command line be a decimal one of 64 bits. CLI11 2.1 reads them with strtoull() and
/// strtoll(), which make a number near 2^64 of -1, the largest number of those beyond, and 8 of 010.
void check_whole_numbers(const std::string& program, CLI::App& app) {
  const auto within = [program]<class T>(CLI::Option* option, T (*read)(const char*, char**, int)) {
    option->transform([](std::string text) {
      const std::size_t sign = text.find_first_of("+-") == 0 ? 1 : 0;
      const std::size_t first = std::min(text.find_first_not_of('0', sign), text.size() - 1);
      // 0x10 stays what it is.
      if (first > sign && text.find_first_not_of("0123456789", sign) == std::string::npos)
        text.erase(sign, first - sign);
      return text;
    });
    option->check([=](const std::string& text) -> std::string {
      errno = 0;
      read(text.c_str(), nullptr, 0);
      if (errno == ERANGE || (std::is_unsigned_v<T> && text.find('-') != std::string::npos)) {
        throw adjoint::Error(fmt::format("{}: {} must be from {} to {}; got {}", program, option->get_name(),
                                         std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), text));
      }
      return {};
    });
  };
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name() == "UINT") within(option, std::strtoull);
    if (option->get_type_name() == "INT") within(option, std::strtoll);
  }
}

}  // namespace

Program::Program(std::string name, const std::string& description)
    : name_(std::move(name)),
      app_(description, name_),
      train_(app_.add_subcommand("train", "Train a model, test it, and write what shows how good it is")),
      settings_(name_, *train_) {
  app_.require_subcommand(1);
  run_.program = name_;
  steps_ = &settings_.add("--steps", run_.steps, "Steps to train").range(1, kMany);
  batch_ = &settings_.add("--batch", run_.batch, "Examples a step").range(1, 1 << 16);
  test_every_ = &settings_.add("--test-every", run_.test_every, "Steps between two tests").range(1, kMany);
  settings_.add("--lr", run_.lr, "Highest learning rate").range(1e-12, 1e12);
  settings_.add("--seed", run_.seed, "Of initial values, order and examples");
  precision_ =
      &settings_.add("--precision", run_.precision, fmt::format("How to compute: {}", fmt::join(precisions(), ", ")))
           .choices(precisions());
  settings_.add("--graph", run_.graph, "On a GPU, do each step as one CUDA graph: the same bits, sooner").added();
  settings_.add("--quick", run_.quick, "Smaller and shorter: minutes on two CPU cores");
}

CLI::App& Program::verb(const std::string& name, const std::string& description,
                        std::function<void(adjoint::Device device)> action) {
  CLI::App* app = app_.add_subcommand(name, description);
  app->add_option("--device", device_, "cpu, cuda, cuda:1, ..., or auto: a GPU where there is one");
  verbs_.push_back({app, std::move(action)});
  return *app;
}

adjoint::Device Program::device() const {
  namespace distributed = adjoint::distributed;
  if (device_ == "auto" || (device_ == "cuda" && distributed::world_size() > 1 && adjoint::cuda_device_count() > 0))
    return adjoint::default_device();  // each rank's own
  if (device_ == "cpu") return adjoint::kCPU;
  const int count = adjoint::cuda_device_count();
  for (int i = 0; i < count; ++i) {
    if (device_ == fmt::format("cuda:{}", i) || (i == 0 && device_ == "cuda"))
      return adjoint::Device(adjoint::DeviceType::kCUDA, i);
  }
  const std::string devices = count > 0 ? fmt::format("{} CUDA devices of this machine", count)
                                        : "CUDA devices, of which this machine or this build has none";
  throw adjoint::Error(fmt::format("{}: --device must be cpu or one of the {}; got '{}'", name_, devices, device_));
}

void Program::load_settings() {
  const auto path = std::filesystem::path(run_.out) / Loop::kCheckpoint;
  try {
    settings_.load(State::settings(path));
  } catch (const nlohmann::json::exception& error) {
    throw adjoint::Error(fmt::format("{}: cannot go on from '{}': {}", name_, path.string(), error.what()));
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw adjoint::Error(fmt::format("{}: cannot go on from '{}': {}", name_, path.string(), error.what()));
  }
}

int Program::train() {
  namespace distributed = adjoint::distributed;
  distributed::init();
  const auto rank = static_cast<std::uint64_t>(distributed::rank());
  if (resume_) {
    load_settings();
  } else {
    if (run_.quick) settings_.make_quick();
    settings_.check();
  }
  run_.device = device();
  if (run_.graph && train_->count("--graph") > 0 && run_.device.is_cpu() && rank == 0)
    fmt::print("{}: --graph: a CPU has no CUDA graphs, so every step simply runs\n", name_);
  RunFolder folder(name_, run_.out);
  catch_interrupts();
  const adjoint::Generator own = adjoint::Generator(run_.seed).fork(rank);
  run_.data_seed = rank == 0 ? run_.seed : own.seed();
  adjoint::manual_seed(run_.seed);
  const std::unique_ptr<Training> training = make_(run_);
  if (rank != 0) adjoint::default_generator() = own;  // from here on: initial values are the same on every rank
  Loop loop(*training, run_, settings_);
  if (resume_) {
    const auto fail = [&](const char* why) {
      throw adjoint::Error(
          fmt::format("{}: cannot go on from '{}': {}", name_, (folder / Loop::kCheckpoint).string(), why));
    };
    try {
      loop.load(folder);
    } catch (const adjoint::OutOfMemoryError&) {
      throw;
    } catch (const adjoint::Error& error) {
      fail(error.what());
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    }
  } else {
    // From here on the folder is this training's: --resume goes on with it, however early it is interrupted.
    loop.save(folder);
    if (rank == 0) {
      folder.remove(training->outputs());
      folder.remove({"metrics.json", "curves.png", "log"});
    }
  }
  if (rank == 0) {
    fmt::print("{} on {}{}\n", training->description(),
               distributed::world_size() > 1 ? fmt::format("{} ranks, rank 0 on ", distributed::world_size()) : "",
               to_string(run_.device));
  }
  std::fflush(stdout);
  const bool done = loop.run(folder, [] { return interrupted() != 0; });
  if (rank != 0) {
    distributed::barrier();
    return done ? 0 : kSignal + interrupted();
  }
  if (!done) {
    distributed::barrier();
    fmt::print("Interrupted after step {}. To go on: {} train --resume --out {}\n", loop.steps_done(), name_, run_.out);
    return kSignal + interrupted();
  }
  const std::vector<std::string> written = loop.finish(folder);
  distributed::barrier();
  fmt::print("{} {:.4f} after {:.0f} seconds of training. Wrote:\n", loop.value_names().front(),
             loop.curve().back().values.front(), loop.seconds());
  for (const std::string& name : written) fmt::print("  {}\n", (folder / name).string());
  return 0;
}

int Program::dispatch(int argc, char** argv) {
  // Said last, so that the help begins with what is the program's own.
  if (run_.out.empty()) run_.out = "out/" + name_;
  CLI::Option* resume =
      train_->add_flag("--resume", resume_, "Go on with the interrupted training in --out, with its settings");
  for (const auto& setting : settings_.all()) {
    resume->excludes(&setting->option());
    // The help's defaults are the program's, which it may have set after the option was made.
    if (!setting->option().get_default_str().empty()) setting->option().capture_default_str();
  }
  train_->add_option("--out", run_.out, "Folder for what is written")->capture_default_str();
  train_->add_option("--device", device_, "cpu, cuda, cuda:1, ..., or auto: a GPU where there is one")
      ->capture_default_str();
  check_whole_numbers(name_, *train_);
  for (const Verb& verb : verbs_) check_whole_numbers(name_, *verb.app);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? 0 : kUsage;
  }
  for (const Verb& verb : verbs_) {
    if (!*verb.app) continue;
    verb.action(device());
    return 0;
  }
  return train();
}

int Program::main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: out of memory; use a smaller --batch\n", name_);
  } catch (const adjoint::OutOfMemoryError& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
    if (*train_)
      fmt::print(stderr, "{}: training with a smaller --batch than {} takes less memory\n", name_, run_.batch);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
  }
  return kFailed;
}

}  // namespace examples
