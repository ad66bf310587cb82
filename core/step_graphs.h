// The graphs of a GraphedStep: which of them serves a call, and what a replay does. Internal.
#pragma once

#include <adjoint/core/autocast.h>
#include <adjoint/core/block_arena.h>
#include <adjoint/core/graphed_step.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/step_capture.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace adjoint::detail {

/// What records and replays on a device. CUDA's is in core/cuda/step_device.cpp.
class ADJOINT_API StepDevice {
 public:
  virtual ~StepDevice();
  /// This thread's kernels are recorded from here on, instead of run.
  virtual void begin() = 0;
  /// Gives the graph.
  virtual std::shared_ptr<void> end() = 0;
  /// Forgets what was recorded since begin().
  virtual void abandon() noexcept = 0;
  /// On the current stream, behind every launch: bytes of the host's, at most StepValues::kBytes, to the device.
  virtual void write(void* to, const std::byte* from, std::size_t nbytes) = 0;
  virtual void launch(void* graph) = 0;
  /// Until every launch is done.
  virtual void wait() = 0;
  /// For BlockArena.
  virtual void* take(std::size_t nbytes) = 0;
  virtual void give_back(void* data, std::size_t nbytes) noexcept = 0;
};

/// Null for the CPU.
std::shared_ptr<StepDevice> make_step_device(Device device);

class ADJOINT_API StepGraphs {
 public:
  /// Without a `device` the function simply runs.
  StepGraphs(GraphedStep::Function step, const GraphedStepOptions& options, std::shared_ptr<StepDevice> device);
  ~StepGraphs();

  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  std::size_t num_graphs() const { return graphs_.size(); }
  std::size_t bytes() const { return arena_ == nullptr ? 0 : arena_->held(); }
  void reset();

 private:
  struct Key {
    std::vector<std::optional<TensorSpec>> inputs;
    std::optional<DType> autocast;
    bool autocast_cache = false;
    Precision precision = Precision::kFull;

    bool operator==(const Key& other) const;
  };
  struct Graph;

  std::vector<Tensor> on_device(const std::vector<Tensor>& inputs) const;
  Graph* find(const Key& key);
  bool is_warm(const Key& key) const;
  void count_run(const Key& key);
  Graph& capture(const Key& key, const std::vector<Tensor>& inputs);
  std::vector<Tensor> launch(Graph& graph);
  bool drop_oldest();

  GraphedStep::Function step_;
  GraphedStepOptions options_;
  std::shared_ptr<StepDevice> device_;
  std::shared_ptr<BlockArena> arena_;
  std::list<Graph> graphs_;              // the one that was used last comes first
  std::list<std::pair<Key, int>> runs_;  // likewise
};

}  // namespace adjoint::detail
