// GraphedStep: a training step that a GPU does as one CUDA graph, a recorded sequence of kernels, so that the host has
// next to nothing to do.
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
// The first call with inputs of some shapes runs the function as it is; the second runs it once more and captures what
// it gives the device to do; later ones replay that, to the same bits as the function. The host's part of the library
// is done in every replay: random numbers go on, schedules and optimisers count, learning rates and bias corrections
// change. What the function itself does on the host is done only while it runs: its conditions, its counters, a number
// that it hands to an operator (x * 0.5) stay as they were captured. on_replay() adds to that.
//
// What a graph cannot hold throws Error while the step is captured, and names the call: what waits for the device
// (item(), to_vector(), synchronize()), copies from and to the host, work on another device or stream, numbers from
// another generator than the thread's default one, tensors that outlive the step without being returned.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace adjoint {

struct GraphedStepOptions {
  /// Where the step computes. On the CPU the function simply runs.
  Device device = default_device();
  /// Calls that run as they are before one is captured, for inputs of each kind: at least 1, for what a program makes
  /// when it is first used (optimisers' state, libraries' handles).
  int warmup = 1;
  /// Graphs kept, at least 1; the one that was used longest ago goes first.
  std::size_t max_graphs = 16;
  /// Bytes of device memory that the graphs' tensors may take together; graphs go likewise where it would be more.
  std::size_t max_bytes = SIZE_MAX;
};

namespace detail {
class StepGraphs;
}

/// A graph serves inputs of its shapes and dtypes, under its AutocastGuard, float32 precision and seed, and where the
/// gradients that the step adds to are those that it was captured with. Sums of gradients over several calls are
/// therefore a step without zero_grad(), and another for the update. Graphs share their memory: a graph's gradients are
/// its own, and a replay writes over them and sets them as .grad(); what the step returns is copied out.
///
/// What the function uses must stay where it is while the GraphedStep lives: modules, optimisers, schedules. Parameters
/// that were moved or converted, and optimisers whose state was loaded, are noticed, and the step is captured anew;
/// after other changes, such as train() or another tensor assigned to a parameter, call reset(). One thread calls at a
/// time; where calls come on several streams, each waits for the one before.
class ADJOINT_API GraphedStep {
 public:
  /// From inputs to outputs; tensors may be undefined. Must end every tape that it begins.
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /// Throws Error for an empty function, and for options that are none.
  explicit GraphedStep(Function step, const GraphedStepOptions& options = {});
  ~GraphedStep();
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;

  /// The function's outputs, detached; those that it computed are the caller's own. Inputs on other devices are copied
  /// to the step's, pinned ones without waiting (see copy_async). Runs on the current stream. Throws Error for an input
  /// that requires a gradient, and where a tape records; what the function throws; and what is told above, where leaves
  /// have the gradients from before, what the library counts is as it was, and the device has done nothing. A
  /// moved-from one throws Error in all of its functions.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs = {});

  /// Within the function: `action` is done now, and on the host in every replay, in its place among what the library
  /// does there. Outside of it, only now.
  static void on_replay(const std::function<void()>& action);

  /// Graphs that there are now, and the bytes of device memory that they hold.
  std::size_t num_graphs() const;
  std::size_t bytes() const;
  /// Drops all graphs. Waits for the device.
  void reset();

 private:
  detail::StepGraphs& graphs() const;

  std::unique_ptr<detail::StepGraphs> graphs_;
};

}  // namespace adjoint
