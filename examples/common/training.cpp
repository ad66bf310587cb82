// You are at stop 7 of 7 of the README's reading path, the loop: this is the training around it. The path ends here.
#include "common/training.h"

#include "common/canvas.h"
#include "common/plot.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/distributed/world.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/progress.h>
#if EXAMPLES_WITH_EVENTS
#include <adjoint/data/events/event_file.h>
#endif
#include <adjoint/ops/distributed/collectives.h>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace examples {
namespace {

namespace distributed = adjoint::distributed;
using adjoint::Tensor;
using Clock = std::chrono::steady_clock;

constexpr double kShowEvery = 0.5;  // seconds
constexpr const char* kLog = "log";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Returns true if any rank's is set, because each rank receives signals at its own time.
bool on_any_rank(bool own) {
  if (distributed::world_size() == 1) return own;
  Tensor any = Tensor::scalar(own ? 1 : 0, {.dtype = adjoint::kUInt8, .device = adjoint::kCPU});
  distributed::all_reduce_(any, distributed::ReduceOp::kMax);
  return any.item<std::uint8_t>() != 0;
}

}  // namespace

Training::~Training() = default;

Loop::~Loop() {
  try {
    writer_.wait();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: the last checkpoint was not written: %s\n", run_.program.c_str(), error.what());
  }
}

Loop::Loop(Training& training, const Run& run, const Settings& settings)
    : training_(training), run_(run), settings_(settings), names_(training.names()) {
  for (std::size_t i = 0; i < names_.size(); ++i)
    sums_.push_back(Tensor::zeros({}, {.dtype = adjoint::kFloat64, .device = run.device}));
  training_.add_to(state_);
  state_.add("loop.step", step_);
  state_.add("loop.seconds", seconds_);
  state_.add("loop.sums", saved_sums_);
  state_.add("loop.value_names", value_names_);
  state_.add("loop.curve", curve_);
}

void Loop::load(const RunFolder& folder) {
  const auto path = folder / kCheckpoint;
  state_.load(path);
  check_curve();
  if (saved_sums_.size() != sums_.size()) throw adjoint::Error("it holds other losses");
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].fill_(saved_sums_[i]);
  if (distributed::rank() == 0) return;
  adjoint::Generator& generator = adjoint::default_generator();
  const std::uint64_t offset = generator.offset();
  generator = generator.fork(static_cast<std::uint64_t>(distributed::rank()));
  generator.seek(offset);
}

// A run has tests before its first and after its last step, and between.
void Loop::check_curve() const {
  if (step_ < 0 || step_ > run_.steps)
    throw adjoint::Error(fmt::format("it has done {} steps, which --steps {} cannot undo", step_, run_.steps));
  std::int64_t last = -1;
  for (const CurvePoint& point : curve_) {
    if (point.step <= last) throw adjoint::Error("its curve must go forward");
    if (point.values.size() != value_names_.size() || point.losses.size() != (point.step > 0 ? names_.size() : 0))
      throw adjoint::Error("its curve must hold each loss and value");
    last = point.step;
  }
  if (last > step_ || (last < 0 && step_ > 0) || (step_ == run_.steps && last != step_))
    throw adjoint::Error(fmt::format("its curve must not end at step {} of {}", last, step_));
}

// The average of all ranks' sums, from which each rank continues.
std::vector<double> Loop::read_sums() {
  std::vector<double> values;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (distributed::world_size() > 1) distributed::all_reduce_(sums_[i], distributed::ReduceOp::kAvg);
    values.push_back(sums_[i].item<double>());
    if (!std::isfinite(values.back())) {
      throw adjoint::Error(fmt::format("{}: training must stay finite; got a {} of {} by step {}; lower --lr",
                                       run_.program, names_[i], values.back(), step_));
    }
  }
  return values;
}

void Loop::start_to_save(const RunFolder& folder) {
  saved_sums_ = read_sums();
  if (distributed::rank() == 0) state_.save(folder / kCheckpoint, settings_.save(), writer_);
}

void Loop::save(const RunFolder& folder) {
  start_to_save(folder);
  writer_.wait();
}

void Loop::test(const RunFolder& folder) {
  const std::vector<double> sums = read_sums();
  if (distributed::rank() == 0) measure(folder, sums);
  for (Tensor& sum : sums_) sum.zero_();
}

void Loop::measure(const RunFolder& folder, const std::vector<double>& sums) {
  const adjoint::MemoryStats memory = adjoint::memory_stats(run_.device);
  CurvePoint point{.step = step_, .seconds = seconds_, .memory_in_use = memory.in_use, .memory_held = memory.held};
  const std::int64_t since = curve_.empty() ? step_ : step_ - curve_.back().step;
  if (step_ > 0) {
    for (const double sum : sums) point.losses.push_back(sum / static_cast<double>(since));
  }
  value_names_.clear();
  for (const auto& [name, value] : training_.test({step_, folder, *log_})) {
    if (!std::isfinite(value)) {
      throw adjoint::Error(fmt::format("{}: training must stay finite; got a {} of {} after step {}; lower --lr",
                                       run_.program, name, value, step_));
    }
    value_names_.push_back(name);
    point.values.push_back(value);
  }
  for (std::size_t i = 0; i < point.losses.size(); ++i)
    log_->add_scalar(fmt::format("train/{}", names_[i]), point.losses[i], step_);
  for (std::size_t i = 0; i < point.values.size(); ++i)
    log_->add_scalar(fmt::format("test/{}", value_names_[i]), point.values[i], step_);
  log_->add_scalar("memory/in_use", static_cast<double>(point.memory_in_use), step_);
  log_->add_scalar("memory/held", static_cast<double>(point.memory_held), step_);
  curve_.push_back(std::move(point));
}

/// Creates the folder again before rank 0 writes, because the training should not be lost with it. Returns true if the
/// folder was removed.
bool Loop::prepare(RunFolder& folder) {
  const bool anew = folder.renew();
  if (anew) log_.reset();
  if (log_) return anew;
  log_ = std::make_unique<adjoint::data::Log>(folder / kLog);
#if EXAMPLES_WITH_EVENTS
  log_->add_writer(adjoint::data::event_writer(folder / kLog));
#endif
  return anew;
}

/// The last test: the losses since the one before, and the first measured value.
std::string Loop::told() const {
  const CurvePoint& point = curve_.back();
  std::string text = fmt::format("step {:>{}}/{}", point.step, fmt::formatted_size("{}", run_.steps), run_.steps);
  for (std::size_t i = 0; i < point.losses.size(); ++i) text += fmt::format("  {} {:.4f}", names_[i], point.losses[i]);
  text += fmt::format("  {} {:.4f}", value_names_.front(), point.values.front());
  return text;
}

std::vector<Tensor> Loop::step() {
  std::vector<Tensor> batch = training_.next();
  if (!run_.graph) return training_.step(batch);
  if (!graph_ || training_.phase() != phase_) {
    phase_ = training_.phase();
    const auto function = [this](const std::vector<Tensor>& inputs) { return training_.step(inputs); };
    graph_.emplace(function, adjoint::GraphedStepOptions{.device = run_.device});
  }
  return (*graph_)(batch);
}

bool Loop::run(RunFolder& folder, const std::function<bool()>& interrupted) {
  const bool leads = distributed::rank() == 0;
  std::optional<adjoint::data::Progress> progress;
  if (leads) {
    progress.emplace(run_.steps,
                     adjoint::data::ProgressOptions{.description = run_.program, .unit = "steps", .initial = step_});
  }
  const auto prepare_to_write = [&] {
    if (leads && prepare(folder))
      progress->print(fmt::format("'{}' was removed; the training makes it again, without its earlier files",
                                  folder.path().string()));
  };
  const auto save_beside = [&] {
    try {
      writer_.wait();
    } catch (const std::exception& error) {
      progress->print(fmt::format("The checkpoint before this one was not written: {}", error.what()));
      return save(folder);
    }
    start_to_save(folder);
  };
  const auto test_and_save = [&] {
    prepare_to_write();
    test(folder);
    save_beside();
    if (!leads) return;
    progress->print(told());
    const CurvePoint& point = curve_.back();
    adjoint::data::Metrics metrics;  // the bar shows the last test
    for (std::size_t i = 0; i < point.losses.size(); ++i) metrics.emplace_back(names_[i], point.losses[i]);
    metrics.emplace_back(value_names_.front(), point.values.front());
    progress->update(0, std::move(metrics));
  };
  if (curve_.empty()) test_and_save();
  auto shown = Clock::now();
  while (step_ < run_.steps) {
    if (on_any_rank(interrupted())) {
      prepare_to_write();
      save_beside();
      writer_.wait();
      return false;
    }
    const auto started = Clock::now();
    const std::vector<Tensor> values = step();
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].add_(values[i].to(adjoint::kFloat64));
    ++step_;
    const bool tests = step_ % run_.test_every == 0 || step_ == run_.steps;
    if (tests) read_sums();  // the device must finish the work that is timed
    adjoint::data::Metrics metrics;
    if (leads && seconds_since(shown) > kShowEvery) {  // reading a number waits for the device
      for (std::size_t i = 0; i < values.size(); ++i) metrics.emplace_back(names_[i], values[i].item<double>());
      metrics.emplace_back(value_names_.front(), curve_.back().values.front());
      shown = Clock::now();
    }
    seconds_ += seconds_since(started);  // includes the waits of reading, because captured steps are only submitted
    if (leads) progress->update(1, std::move(metrics));
    if (tests) test_and_save();
  }
  writer_.wait();
  return true;
}

std::vector<std::string> Loop::finish(RunFolder& folder) {
  nlohmann::ordered_json metrics{{"program", run_.program},
                                 {"device", to_string(run_.device)},
                                 {"steps", step_},
                                 {"seconds", seconds_},
                                 {"settings", settings_.save()}};
  const auto values_of = [&](const CurvePoint& point) {
    nlohmann::ordered_json values;
    for (std::size_t i = 0; i < value_names_.size(); ++i) values[value_names_[i]] = point.values[i];
    return values;
  };
  metrics.update(values_of(curve_.back()));
  metrics["untrained"] = values_of(curve_.front());
  for (const auto& [name, value] : training_.baselines()) metrics["baselines"][name] = value;
  prepare(folder);
  training_.finish({step_, folder, *log_}, metrics);
  for (const CurvePoint& point : curve_) {
    nlohmann::ordered_json entry{{"step", point.step}, {"seconds", point.seconds}};
    for (std::size_t i = 0; i < point.losses.size(); ++i) entry[names_[i]] = point.losses[i];
    entry.update(values_of(point));
    entry["memory_in_use"] = point.memory_in_use;
    entry["memory_held"] = point.memory_held;
    metrics["curve"].push_back(entry);
  }

  adjoint::AtomicFile file(run_.program.c_str(), folder / "metrics.json");
  file.write(metrics.dump(2) + "\n");
  file.commit();

  std::vector<std::string> written;
  for (const std::string& name : training_.outputs()) {
    if (std::filesystem::exists(folder / name)) written.push_back(name);
  }
  written.push_back("metrics.json");
  if (!can_draw()) {
    fmt::print("This build has no Cairo: it draws no labelled pictures and no curves.png\n");
    return written;
  }
  Panel losses{.title = "loss", .x_label = "step"}, values{.title = value_names_.front(), .x_label = "step"};
  for (std::size_t i = 0; i < names_.size(); ++i) {
    losses.series.push_back({.name = names_.size() > 1 ? names_[i] : ""});
    for (const CurvePoint& point : curve_) {
      if (!point.losses.empty())
        losses.series.back().points.emplace_back(static_cast<double>(point.step), point.losses[i]);
    }
  }
  values.series.push_back({});
  for (const CurvePoint& point : curve_)
    values.series.back().points.emplace_back(static_cast<double>(point.step), point.values.front());
  values.levels = training_.baselines();
  write_plot(folder / "curves.png", {losses, values});
  written.emplace_back("curves.png");
  return written;
}

}  // namespace examples
