// Training: what a program says of its own, and the loop that all of them share.
//
// A program derives from Training; the loop asks it for batches and steps, tests it now and then, shows and logs how it
// goes, writes checkpoints, and goes on from them to the bit.
#pragma once

#include "common/run_folder.h"
#include "common/settings.h"
#include "common/state.h"

#include <adjoint/core/device.h>
#include <adjoint/core/graphed_step.h>
#include <adjoint/core/tensor.h>
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

/// What the command line of every program's `train` says.
struct Run {
  std::string program;
  adjoint::Device device;
  std::string precision = "tf32";
  std::int64_t steps = 1000, batch = 16;
  /// Steps between two tests, after each of which a checkpoint is written.
  std::int64_t test_every = 100;
  double lr = 1e-3;
  std::uint64_t seed = 1;
  /// The loader's: the seed, and of another rank than 0 one of its own.
  std::uint64_t data_seed = 1;
  bool quick = false;
  /// Steps as CUDA graphs (core/graphed_step.h): the same bits, with next to nothing for the host to do.
  bool graph = false;
  std::string out;
};

/// Measured numbers by name. Names are what curves and metrics.json show: "psnr", "mean_iou".
using Values = std::vector<std::pair<std::string, double>>;

/// A moment of a training, for what tests and writes.
struct Moment {
  std::int64_t step = 0;
  const RunFolder& folder;
  /// Scalars go there by themselves; pictures and sound may.
  adjoint::data::Log& log;
};

class Training {
 public:
  Training() = default;
  Training(const Training&) = delete;  // its parts refer to one another
  Training& operator=(const Training&) = delete;
  virtual ~Training();

  /// Says what goes into a checkpoint: everything that later steps depend on but the default generator, which the loop
  /// keeps, and what stands in the settings.
  virtual void add_to(State& state) = 0;
  /// A line about what is trained on what, said before the first step.
  virtual std::string description() const = 0;
  /// What step() gives, by name; the first is the loss.
  virtual std::vector<std::string> names() const { return {"loss"}; }
  /// A batch on the device: whatever step() reads that changes from step to step.
  virtual std::vector<adjoint::Tensor> next() = 0;
  /// One step, of operators on the device alone: nothing is read back, so that a CUDA graph can hold it. What it counts
  /// on the host it counts within GraphedStep::on_replay(). Gives a scalar for each name.
  virtual std::vector<adjoint::Tensor> step(const std::vector<adjoint::Tensor>& batch) = 0;
  /// Tells steps apart that do other things than those before: a graph of one serves no other.
  virtual std::int64_t phase() const { return 0; }
  /// Measures on what it does not train on, before the first step too; draws from no default generator. The first value
  /// is the one that counts.
  virtual Values test(const Moment& moment) = 0;
  /// What the first value would be by simpler means, such as bicubic interpolation: for comparison.
  virtual Values baselines() const { return {}; }
  /// The trained model and what shows how good it is, each an output of these names.
  virtual std::vector<std::string> outputs() const = 0;
  /// Writes them; adds to `metrics` what metrics.json is to have beside the loop's own.
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

/// The loop over a Training. Of several processes that train together (core/distributed/world.h), each steps on batches
/// of its own; rank 0 alone tests, writes and speaks.
class Loop {
 public:
  static constexpr const char* kCheckpoint = "checkpoint.safetensors";

  /// All three must outlive it.
  Loop(Training& training, const Run& run, const Settings& settings);
  /// Waits for a checkpoint that is being written; what that failed at becomes a message.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Goes on from the folder's checkpoint, with any number of ranks. Throws Error, naming it.
  void load(const RunFolder& folder);
  /// Returns when the checkpoint is on the disk. Throws Error where a loss is no longer finite: what the last
  /// checkpoint holds is better than what diverged.
  void save(const RunFolder& folder);

  /// Steps until the last one, and returns true; or until interrupted(), asked before every step, and returns false.
  /// Writes a checkpoint at its start, after every test and where it is interrupted, into a folder made anew where it
  /// was removed meanwhile. A thread writes beside the next steps. Where that fails, the next checkpoint's turn tells
  /// it, and steps go on when that one is on the disk; the last one is waited for too. Throws Error where a checkpoint
  /// that is waited for cannot be written: the one before it is still there.
  bool run(RunFolder& folder, const std::function<bool()>& interrupted);
  /// Has the training write its outputs, and writes metrics.json and, where there is Cairo, curves.png. Returns the
  /// names of what was written. Rank 0's.
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
  std::int64_t phase_ = 0;  // that the graph is for
  std::unique_ptr<adjoint::data::Log> log_;
  std::vector<std::string> names_, value_names_;
  std::vector<adjoint::Tensor> sums_;  // float64, on the device: of the steps since the last test
  std::vector<double> saved_sums_;     // what a checkpoint holds of them
  std::int64_t step_ = 0;
  double seconds_ = 0.0;
  std::vector<CurvePoint> curve_;
  adjoint::nn::BackgroundWriter writer_;  // rank 0's
};

}  // namespace examples
