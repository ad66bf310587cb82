// GraphedStep: a training step that a GPU runs as one CUDA graph, a recorded sequence of kernels, with next to no work
// for the host.
//
//   GraphedStep step([&](const std::vector<Tensor>& batch) -> std::vector<Tensor> {
//     adam.zero_grad();
//     Tape tape;
//     const Tensor loss = mse_loss(net(batch[0]), batch[1]);
//     tape.backward(loss);
//     optim::clip_grad_norm_(net.parameters(), 1.0);
//     adam.step();
//     schedule.step();
//     return {loss};
//   });
//   while (loader.next(batch)) losses = step({batch.input, batch.target});
//
// The first call with inputs of some shapes runs the function directly. The second runs it once more and captures its
// work on the device. Later calls replay that, with the same bits as the function. Every replay performs the host's
// part of the library: random numbers advance, schedules and optimisers count, learning rates and bias corrections
// change. The function's own host code runs only while the function runs: its conditions, its counters, and a number
// that it passes to an operator (x * 0.5) stay as captured. on_replay() adds host code to replays.
//
// Operations that a graph cannot hold throw Error during capture, and the Error names the call: waiting for the device
// (item(), to_vector(), synchronize()), copies from and to the host, work on another device or stream, numbers from a
// generator other than the thread's default one, and tensors that outlive the step without being returned.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace adjoint {

struct GraphedStepOptions {
  /// The device of the step. On the CPU the function simply runs.
  Device device = default_device();
  /// Calls that run directly before one is captured, for inputs of each kind: at least 1, because programs create
  /// objects on first use (optimisers' state, libraries' handles).
  int warmup = 1;
  /// The largest number of graphs kept, at least 1; the least recently used graph is dropped first.
  std::size_t max_graphs = 16;
  /// The limit in bytes for the device memory of all graphs' tensors; beyond it, graphs are dropped in the same order.
  std::size_t max_bytes = SIZE_MAX;
};

namespace detail {
class StepGraphs;
}

/// A graph serves inputs of its shapes and dtypes, under its AutocastGuard and float32 precision, under its seed if it
/// draws random numbers, and only if the gradients that the step adds to are those of the capture. To accumulate
/// gradients over several calls, use one step without zero_grad() and another for the update. Graphs share their
/// memory: a graph's gradients are its own, and a replay overwrites them and sets them as .grad(); the step's outputs
/// are copied out.
///
/// The function's modules, optimisers and schedules must stay in place while the GraphedStep lives. Parameters that
/// were moved or converted, and optimisers whose state was loaded, are detected, and the step is captured again; after
/// other changes, such as train() or another tensor assigned to a parameter, call reset(). One thread calls at a time;
/// if calls come on several streams, each waits for the previous one.
class ADJOINT_API GraphedStep {
 public:
  /// From inputs to outputs; tensors may be undefined. It must end every tape that it begins.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// Throws Error for an empty function, and for invalid options.
  explicit GraphedStep(Function step, const GraphedStepOptions& options = {});
  ~GraphedStep();
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;

  /// The function's outputs, detached; outputs that it computed belong to the caller. Inputs on other devices are
  /// copied to the step's device, pinned ones without waiting (see copy_async). Runs on the current stream. Throws
  /// Error for an input that requires a gradient, if a tape records, for exceptions of the function, and for the
  /// operations listed above; then leaves have their previous gradients, the library's counts are unchanged, and the
  /// device has done nothing. All functions of a moved-from GraphedStep throw Error.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs = {});

  /// Within the function: runs `action` now, and on the host in every replay, in order with the library's host code.
  /// Outside of it: runs it only now.
  static void on_replay(const std::function<void()>& action);

  /// The number of current graphs, and the bytes of device memory that they hold.
  std::size_t num_graphs() const;
  std::size_t bytes() const;
  /// Drops all graphs. Waits for the device.
  void reset();

 private:
  detail::StepGraphs& graphs() const;

  Owned<detail::StepGraphs> graphs_;
};

}  // namespace adjoint
