// The graphs of a GraphedStep: selects the one that serves a call, and replays it. Internal.
#pragma once

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/block_arena.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace adjoint::detail {

/// Bytes on the device, and their destination on it.
struct StepMove {
  void* to;
  const void* from;
  std::size_t nbytes;
};

/// Records and replays on a device. CUDA's implementation is in core/cuda/step_device.cpp.
class ADJOINT_API StepDevice {
 public:
  virtual ~StepDevice();
  /// From here on this thread's kernels are recorded, not run.
  virtual void begin() = 0;
  /// Returns the graph.
  virtual std::shared_ptr<void> end() = 0;
  /// Recorded: each run moves `nbytes` > 0 bytes from there to the address that the device then finds at `to`.
  virtual void deliver(const void* from, void* const* to, std::size_t nbytes) = 0;
  /// Drops everything recorded since begin().
  virtual void abandon() noexcept = 0;
  /// Orders later work of the current stream after every launch.
  virtual void follow() = 0;
  /// On the current stream: performs the moves, and copies the host's bytes, at most StepValues::kBytes, to the device
  /// at `to`.
  virtual void feed(std::span<const StepMove> moves, void* to, const std::byte* from, std::size_t nbytes) = 0;
  virtual void launch(void* graph) = 0;
  /// Waits until every launch is done.
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
  /// The outputs of the next launch.
  std::vector<Tensor> make_outputs(Graph& graph);
  /// `inputs`: empty if they are in place already.
  void launch(Graph& graph, const std::vector<Tensor>& inputs);
  bool drop_oldest();

  GraphedStep::Function step_;
  GraphedStepOptions options_;
  std::shared_ptr<StepDevice> device_;
  std::shared_ptr<BlockArena> arena_;
  std::list<Graph> graphs_;              // the most recently used one first
  std::list<std::pair<Key, int>> runs_;  // in the same order
};

}  // namespace adjoint::detail
