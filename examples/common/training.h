// Training: the part that each program defines, and the loop that all programs share.
//
// A program derives from Training; the loop asks it for batches and steps, tests it now and then, shows and logs its
// progress, writes checkpoints, and resumes from them bit for bit.
#pragma once

#include "common/run_folder.h"
#include "common/settings.h"
#include "common/state.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/tensor/memory_format.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/log.h>
#include <adjoint/nn/background_writer.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// The values of the common options of `train`.
struct Run {
  std::string program;
  adjoint::Device device;
  std::string precision = "tf32";
  /// Of filters and batches, in programs with --memory-format.
  adjoint::MemoryFormat memory_format = adjoint::kContiguous;
  std::int64_t steps = 1000, batch = 16;
  /// Steps between two tests, after each of which a checkpoint is written.
  std::int64_t test_every = 100;
  double lr = 1e-3;
  std::uint64_t seed = 1;
  /// The loader's seed: the seed itself, and a different one on each rank but 0.
  std::uint64_t data_seed = 1;
  bool quick = false;
  /// Steps as CUDA graphs (core/graph/graphed_step.h): the same bits, with almost no work for the host.
  bool graph = false;
  std::string out;
};

/// Measured numbers by name. The names appear in curves and metrics.json: "psnr", "mean_iou".
using Values = std::vector<std::pair<std::string, double>>;

/// A moment of a training, passed to tests and writes.
struct Moment {
  std::int64_t step = 0;
  const RunFolder& folder;
  /// Scalars are logged automatically; programs may add pictures and sound.
  adjoint::data::Log& log;
};

class Training {
 public:
  Training() = default;
  Training(const Training&) = delete;  // its parts refer to one another
  Training& operator=(const Training&) = delete;
  virtual ~Training();

  /// Adds everything to a checkpoint that later steps depend on, except the default generator, which the loop keeps,
  /// and the settings.
  virtual void add_to(State& state) = 0;
  /// A line that describes the model and the data, shown before the first step.
  virtual std::string description() const = 0;
  /// The names of step()'s results; the first is the loss.
  virtual std::vector<std::string> names() const { return {"loss"}; }
  /// A batch on the device: the inputs of step() that change from step to step.
  virtual std::vector<adjoint::Tensor> next() = 0;
  /// One step, made only of operators on the device. It reads nothing back, because a CUDA graph must hold it. Counts
  /// kept on the host are updated in GraphedStep::on_replay(). Returns a scalar for each name.
  virtual std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) = 0;
  /// Distinguishes kinds of steps that do different work; the graph of one kind does not serve another.
  virtual std::int64_t phase() const { return 0; }
  /// Measures on data that it does not train on, before the first step too, without drawing from the default generator.
  /// The first value decides.
  virtual Values test(const Moment& moment) = 0;
  /// The first value as simpler methods reach it, such as bicubic interpolation, for comparison.
  virtual Values baselines() const { return {}; }
  /// The names of the outputs: the trained model, and reports of its quality.
  virtual std::vector<std::string> outputs() const = 0;
  /// Writes them; adds further entries to `metrics`, the content of metrics.json.
  virtual void finish(const Moment& moment, nlohmann::ordered_json& metrics) = 0;
};

/// One test.
struct CurvePoint {
  std::int64_t step = 0;
  double seconds = 0.0;        // of training so far
  std::vector<double> losses;  // of names(), means since the last test; empty before the first step
  std::vector<double> values;  // of test()
  // Bytes of the device before the test (memory_stats()): of live tensors, and taken from the driver or the system. 0
  // in checkpoints from before they were kept.
  std::size_t memory_in_use = 0, memory_held = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CurvePoint, step, seconds, losses, values, memory_in_use, memory_held)

/// The loop over a Training. If several processes train together (core/distributed/world.h), each steps on its own
/// batches; only rank 0 tests, writes and prints.
class Loop {
 public:
  static constexpr const char* kCheckpoint = "checkpoint.safetensors";

  /// All three must outlive it.
  Loop(Training& training, const Run& run, const Settings& settings);
  /// Waits for a checkpoint that is being written; if that failed, prints a message.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Continues from the folder's checkpoint, with any number of ranks, to the run's last step, which may have changed.
  /// Throws Error, naming the checkpoint.
  void load(const RunFolder& folder);
  /// Returns when the checkpoint is on the disk. Throws Error if a loss is no longer finite, because the last
  /// checkpoint is better than a diverged state.
  void save(const RunFolder& folder);

  /// Steps until the last step, and returns true; or until interrupted(), which is asked before every step, and returns
  /// false. Writes a checkpoint at its start, after every test and on interruption, and creates the folder again if it
  /// was removed meanwhile. A thread writes while the next steps run. If a write fails, this is reported when the next
  /// checkpoint is due, and steps continue once that one is on the disk; the last checkpoint is waited for too. Throws
  /// Error if a checkpoint that it waits for cannot be written; the previous one then still exists.
  bool run(RunFolder& folder, const std::function<bool()>& interrupted);
  /// Lets the training write its outputs, and writes metrics.json and, if there is Cairo, curves.png. Returns the names
  /// of the files written. Called by rank 0.
  std::vector<std::string> finish(RunFolder& folder);

  std::int64_t steps_done() const { return step_; }
  double seconds() const { return seconds_; }
  const std::vector<CurvePoint>& curve() const { return curve_; }
  /// Of test()'s numbers; empty before the first test.
  const std::vector<std::string>& value_names() const { return value_names_; }

 private:
  std::vector<adjoint::Tensor> step();
  bool prepare(RunFolder& folder);
  void test(const RunFolder& folder);
  void measure(const RunFolder& folder, const std::vector<double>& sums);
  void start_to_save(const RunFolder& folder);
  std::vector<double> read_sums();
  std::string told() const;
  void check_curve() const;

  Training& training_;
  const Run& run_;
  const Settings& settings_;
  State state_;
  std::optional<adjoint::GraphedStep> graph_;
  std::int64_t phase_ = 0;  // the kind of step that the graph is for
  std::unique_ptr<adjoint::data::Log> log_;
  std::vector<std::string> names_, value_names_;
  std::vector<adjoint::Tensor> sums_;  // float64, on the device: of the steps since the last test
  std::vector<double> saved_sums_;     // their values in a checkpoint
  std::int64_t step_ = 0;
  double seconds_ = 0.0;
  std::vector<CurvePoint> curve_;
  adjoint::nn::BackgroundWriter writer_;  // rank 0's
};

}  // namespace examples
