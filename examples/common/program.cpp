#include "common/program.h"

#include "common/arithmetic.h"
#include "common/interrupt.h"
#include "common/memory_format.h"
#include "common/run_folder.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/distributed/world.h>
#include <adjoint/core/tensor/random.h>
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
constexpr std::int64_t kTests = 5;  // least number in a training: fewer points are no curve

/// Makes the command line accept only decimal whole numbers of 64 bits. CLI11 2.1 reads them with strtoull() and
/// strtoll(), which turn -1 into a number near 2^64, larger numbers into the largest one, and 010 into 8.
void check_whole_numbers(const std::string& program, CLI::App& app) {
  const auto within = [program]<class T>(CLI::Option* option, T (*read)(const char*, char**, int)) {
    option->transform([](std::string text) {
      const std::size_t sign = text.find_first_of("+-") == 0 ? 1 : 0;
      const std::size_t first = std::min(text.find_first_not_of('0', sign), text.size() - 1);
      // 0x10 stays unchanged.
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

/// Returns the number of letters to change, add or remove to turn one into the other (Levenshtein).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j < row.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

/// Returns the name that was most likely meant, or an empty one if no name is near.
std::string nearest(const std::string& text, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::min<std::size_t>(2, (text.size() + 1) / 3) + 1;
  for (const std::string& name : names) {
    if (const std::size_t far = distance(text, name); far < least) {
      least = far;
      best = name;
    }
  }
  return best;
}

/// Returns the options of a verb, with their dashes, or the verbs of the program itself.
std::vector<std::string> names_of(const CLI::App& app, bool verbs) {
  std::vector<std::string> names;
  if (verbs) {
    for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
    return names;
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

Program::Program(std::string name, const std::string& description)
    : name_(std::move(name)),
      app_(description, name_),
      train_(app_.add_subcommand("train", "Train a model, test it, and write its results")),
      settings_(name_, *train_) {
  app_.require_subcommand(1);
  run_.program = name_;
  steps_ = &settings_.add("--steps", run_.steps, "Steps to train").range(1, kMany);
  batch_ = &settings_.add("--batch", run_.batch, "Examples per step").range(1, 1 << 16);
  test_every_ = &settings_.add("--test-every", run_.test_every, "Steps between two tests").range(1, kMany);
  lr_ = &settings_.add("--lr", run_.lr, "Highest learning rate").range(1e-12, 1e12);
  settings_.add("--seed", run_.seed, "Seed of initial values, order and examples");
  precision_ =
      &settings_.add("--precision", run_.precision, fmt::format("Arithmetic: {}", fmt::join(precisions(), ", ")))
           .choices(precisions());
  settings_.add("--graph", run_.graph, "On a GPU, run each step as one CUDA graph: the same bits, faster").added();
  settings_.add("--quick", run_.quick, "Smaller and shorter: minutes on two CPU cores");
}

void Program::add_memory_format() {
  format_ = &settings_
                 .add("--memory-format", memory_format_,
                      fmt::format("Order of images in memory: {}; auto: channels-last in half precision on a GPU of "
                                  "compute capability 9.0, else contiguous",
                                  fmt::join(memory_formats(), ", ")))
                 .choices(memory_formats())
                 .added();
}

CLI::App& Program::verb(const std::string& name, const std::string& description,
                        std::function<void(adjoint::Device device)> action) {
  CLI::App* app = app_.add_subcommand(name, description);
  app->add_option("--device", device_, "cpu, cuda, cuda:1, ..., or auto: a GPU if there is one");
  if (format_ != nullptr) {
    app->add_option("--memory-format", memory_format_,
                    fmt::format("Order of images in memory: {}; auto: contiguous, because this command computes in "
                                "float32",
                                fmt::join(memory_formats(), ", ")));
  }
  verbs_.push_back({app, std::move(action)});
  return *app;
}

adjoint::Device Program::device() const {
  namespace distributed = adjoint::distributed;
  if (device_ == "auto" || (device_ == "cuda" && distributed::world_size() > 1 && adjoint::cuda_device_count() > 0))
    return adjoint::default_device();  // each rank has its own
  if (device_ == "cpu") return adjoint::kCPU;
  const int count = adjoint::cuda_device_count();
  for (int i = 0; i < count; ++i) {
    if (device_ == fmt::format("cuda:{}", i) || (i == 0 && device_ == "cuda"))
      return adjoint::Device(adjoint::DeviceType::kCUDA, i);
  }
  const std::string devices = count > 0 ? fmt::format("{} CUDA devices of this machine", count)
                                        : "CUDA devices (this machine or this build has none)";
  throw adjoint::Error(fmt::format("{}: --device must be cpu or one of the {}; got '{}'", name_, devices, device_));
}

void Program::choose_format(adjoint::Device device, const std::string& precision) {
  if (format_ == nullptr) return;
  format_->check(name_);
  run_.memory_format = memory_format_of(memory_format_, device, precision);
}

void Program::load_settings() {
  const auto path = std::filesystem::path(run_.out) / Loop::kCheckpoint;
  const std::int64_t asked = run_.steps;
  const std::string asked_format = memory_format_;
  try {
    settings_.load(State::settings(path));
    if (steps_->option().count() > 0) run_.steps = asked;
    if (format_ != nullptr && format_->option().count() > 0) memory_format_ = asked_format;
    settings_.check();
  } catch (const nlohmann::json::exception& error) {
    throw adjoint::Error(fmt::format("{}: cannot resume from '{}': {}", name_, path.string(), error.what()));
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const adjoint::Error& error) {
    throw adjoint::Error(fmt::format("{}: cannot resume from '{}': {}", name_, path.string(), error.what()));
  }
}

// Only --overwrite may replace the result of a training of hours.
void Program::check_not_held() const {
  const std::filesystem::path out = run_.out;
  std::string held;
  try {
    const auto path = out / Loop::kCheckpoint;
    if (!std::filesystem::exists(path)) return;
    const std::int64_t done = State::values(path).at("loop.step"), steps = State::settings(path).at("steps");
    if (done == 0) return;
    held = done == steps ? fmt::format("a finished training of {} steps", steps)
                         : fmt::format("a training with {} of {} steps done", done, steps);
  } catch (const std::exception&) {
    return;  // a checkpoint that cannot be read cannot be resumed either
  }
  throw adjoint::Error(fmt::format(
      "{}: '{}' holds {}; resume it with --resume (or extend it with --steps), name another folder with --out, or "
      "replace it with --overwrite",
      name_, run_.out, held));
}

int Program::train() {
  namespace distributed = adjoint::distributed;
  distributed::init();
  const auto rank = static_cast<std::uint64_t>(distributed::rank());
  if (resume_) {
    load_settings();
  } else {
    if (run_.quick) settings_.make_quick();
    if (test_every_->option().count() == 0)
      run_.test_every = std::min(run_.test_every, std::max<std::int64_t>(1, run_.steps / kTests));
    settings_.check();
  }
  run_.device = device();
  choose_format(run_.device, run_.precision);
  if (run_.graph && train_->count("--graph") > 0 && run_.device.is_cpu() && rank == 0)
    fmt::print("{}: --graph: a CPU has no CUDA graphs; every step runs as usual\n", name_);
  RunFolder folder(name_, run_.out);
  if (!resume_ && !overwrite_ && rank == 0) check_not_held();
  catch_interrupts();
  const adjoint::Generator own = adjoint::Generator(run_.seed).fork(rank);
  run_.data_seed = rank == 0 ? run_.seed : own.seed();
  adjoint::manual_seed(run_.seed);
  const std::unique_ptr<Training> training = make_(run_);
  if (rank != 0) adjoint::default_generator() = own;  // after this the initial values are the same on every rank
  Loop loop(*training, run_, settings_);
  if (resume_) {
    const auto fail = [&](const char* why) {
      throw adjoint::Error(
          fmt::format("{}: cannot resume from '{}': {}", name_, (folder / Loop::kCheckpoint).string(), why));
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
    // From here on the folder is this training's, and --resume continues it, however early it is interrupted.
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
    if (resume_ && loop.steps_done() == run_.steps)
      fmt::print("All of its {} steps are done; to train longer: {} train --resume --steps {} --out {}\n", run_.steps,
                 name_, 2 * run_.steps, run_.out);
  }
  std::fflush(stdout);
  const bool done = loop.run(folder, [] { return interrupted() != 0; });
  if (rank != 0) {
    distributed::barrier();
    return done ? 0 : kSignal + interrupted();
  }
  if (!done) {
    distributed::barrier();
    fmt::print("Interrupted after step {}. To resume: {} train --resume --out {}\n", loop.steps_done(), name_,
               run_.out);
    return kSignal + interrupted();
  }
  const std::vector<std::string> written = loop.finish(folder);
  distributed::barrier();
  fmt::print("{} {:.4f} after {:.0f} seconds of training. Wrote:\n", loop.value_names().front(),
             loop.curve().back().values.front(), loop.seconds());
  for (const std::string& name : written) fmt::print("  {}\n", (folder / name).string());
  return 0;
}

int Program::wrong_usage(const CLI::ParseError& error) const {
  if (error.get_exit_code() == 0) return app_.exit(error);  // it was asked for help
  const auto verbs = app_.get_subcommands();
  const CLI::App& used = verbs.empty() ? app_ : *verbs.front();
  const std::vector<std::string> unknown = app_.remaining(true);
  const std::string help = fmt::format("{}{} --help", name_, verbs.empty() ? "" : " " + used.get_name());
  if (unknown.empty()) {
    fmt::print(stderr, "{}: {}; see {}\n", name_, error.what(), help);
    return kUsage;
  }
  const auto is_option = [](const std::string& text) { return text.starts_with("-"); };
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  const std::string& first = option == unknown.end() ? unknown.front() : *option;
  const std::string meant = nearest(first.substr(0, first.find('=')), names_of(used, verbs.empty()));
  fmt::print(stderr, "{}: not expected: {}; {}\n", name_, fmt::join(unknown, " "),
             meant.empty() ? fmt::format("see {}", help) : fmt::format("did you mean {}? See {}", meant, help));
  return kUsage;
}

int Program::dispatch(int argc, char** argv) {
  // These come last, because the help should begin with the program's own options.
  if (run_.out.empty()) run_.out = "out/" + name_;
  CLI::Option* resume = train_->add_flag("--resume", resume_,
                                         "Resume the training in --out with its settings; --steps changes its length");
  train_->add_flag("--overwrite", overwrite_, "Replace the training in --out")->excludes(resume);
  for (const auto& setting : settings_.all()) {
    if (setting.get() != steps_ && setting.get() != format_) resume->excludes(&setting->option());
    // The help shows the program's defaults, which it may have set after it made the option.
    if (!setting->option().get_default_str().empty()) setting->option().capture_default_str();
  }
  train_->add_option("--out", run_.out, "Folder for the output")->capture_default_str();
  train_->add_option("--device", device_, "cpu, cuda, cuda:1, ..., or auto: a GPU if there is one")
      ->capture_default_str();
  check_whole_numbers(name_, *train_);
  for (const Verb& verb : verbs_) check_whole_numbers(name_, *verb.app);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return wrong_usage(error);
  }
  for (const Verb& verb : verbs_) {
    if (!*verb.app) continue;
    const adjoint::Device chosen = device();
    choose_format(chosen, "float32");
    verb.action(chosen);
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
