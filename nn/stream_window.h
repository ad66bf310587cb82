// The state of a streamed network: the last samples of its intermediate signals. Internal.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace adjoint::nn::detail {

/// A stream's position.
struct StreamClock {
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  std::int64_t position = 0;          // the place in the network's input of the block's first sample
  std::int64_t samples = 0;           // of the block that are the signal's
  std::int64_t advance = 0;           // `samples` of the previous block
  std::vector<std::int64_t> lengths;  // of the signals; kEndless until the end is known
};

/// A window on a signal: the block's samples behind the `history` samples before them. Samples outside of [first,
/// length - cut) are replaced by `fill`.
struct WindowSpec {
  std::size_t axis = 0;
  std::int64_t history = 0;
  std::int64_t up = 1, down = 1;  // samples of the signal for each of the network's input
  std::int64_t delay = 0;         // the block's first sample is `delay` samples older than the clock's position
  std::int64_t first = 0, cut = 0;
  std::size_t length = 0;              // among the clock's lengths
  std::array<std::byte, 8> fill = {};  // the bytes of one element
};

/// Puts the block x behind the history that `window` holds, under a trace that plans calls. The window has x's shape,
/// with `history` more samples.
void pass_window(const Tensor& x, const Tensor& window, const WindowSpec& spec,
                 const std::shared_ptr<const StreamClock>& clock);

/// Keeps the state of a recurrence along a signal while it lives, on this thread: steps before the signal, and those
/// behind the block's samples, leave the state as it was. Under a trace that plans calls.
class StepKeeper {
 public:
  /// Only the block's place in the signal matters in `spec`.
  StepKeeper(const WindowSpec& spec, std::shared_ptr<const StreamClock> clock);
  ~StepKeeper();
  StepKeeper(const StepKeeper&) = delete;
  StepKeeper& operator=(const StepKeeper&) = delete;

  static const StepKeeper* current();
  /// The state `after` step `step` of the block becomes the state `before` it, if the step is no step of the signal.
  void keep(std::int64_t step, const Tensor& before, const Tensor& after) const;

 private:
  const WindowSpec spec_;
  const std::shared_ptr<const StreamClock> clock_;
  const StepKeeper* const outer_;
};

/// The places of [first, length - cut) in a block of `extent` samples.
struct Inside {
  std::int64_t begin, end;
};
Inside inside_of(const WindowSpec& spec, const StreamClock& clock, std::int64_t extent);

}  // namespace adjoint::nn::detail
