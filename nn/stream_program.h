// A network's calls, translated to calls on blocks of its signal. Internal.
//
// Sample t of a signal x is known once enough of the network's input is: block b of the input gives samples from b R -
// D on, where R is the number of x's samples in a block and D is x's delay. An operator whose output t reads x from t s
// - p to t s - p + span - 1 adds to the delay, and needs a window: the samples of x before the block that it still
// reads. Branches that meet wait for the latest one, in windows too. Everything else is the operator itself, on a
// block.
//
// The operator's padding sets the samples outside of a signal (t below 0, or behind its end): windows replace the
// values that earlier layers compute there.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/stream_calls.h>
#include <adjoint/nn/stream_window.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adjoint::nn::detail {

/// Samples around a signal that padding has added to it, but which no window holds yet: those outside of [first, length
/// - cut) are `value`.
struct Around {
  std::int64_t first = 0, cut = 0;
  double value = 0.0;
};

/// A value of the network that runs along time.
struct Signal {
  std::size_t slot = 0;  // among a frame's values
  Shape shape;           // for the recorded input
  std::size_t axis = 0;  // time
  DType dtype = kFloat32;
  std::int64_t up = 1, down = 1, delay = 0;  // as in WindowSpec
  std::size_t length = 0;                    // among StreamProgram::lengths
  std::optional<Around> around = {};
};

/// floor((length * scale + add) / divisor) of another signal's length.
struct LengthRule {
  std::size_t from = 0;
  std::int64_t scale = 1, add = 0, divisor = 1;
};

/// The samples that output t of an operator reads: from t stride - before to t stride - before + span - 1. `after`: the
/// padding behind the end.
struct Reach {
  std::int64_t span = 1, stride = 1, before = 0, after = 0;
};

/// The values of one block.
struct StreamFrame {
  std::vector<Tensor> values;
  std::span<const Tensor> states;
  std::shared_ptr<const StreamClock> clock;
};

/// A tensor that lives from block to block: a window, or the state of a recurrence.
struct ProgramState {
  Shape shape;
  DType dtype;
  Tensor first;  // before the signal; undefined: zeros
};

/// The calls on blocks of `block` samples.
class StreamProgram {
 public:
  StreamProgram(SignalCalls calls, const Tensor& input, std::int64_t block);

  const Signal& output() const { return output_; }
  /// Blocks must be multiples of it.
  std::int64_t multiple() const { return multiple_; }
  /// Blocks of silence before the signal after which all windows hold the samples that precede it.
  std::int64_t blocks_before() const { return before_; }
  const std::vector<ProgramState>& states() const { return states_; }
  std::int64_t samples(const Signal& x) const { return block_ * x.up / x.down; }
  /// The lengths of all signals for an input of `length` samples. Throws Error for one that the network itself refuses,
  /// because signals that meet would differ in length.
  std::vector<std::int64_t> lengths(std::int64_t length) const;
  /// Throws Error, naming the call, if the other program, made for another length of the signal, has other calls.
  void check_same(const StreamProgram& other) const;
  /// The output of a block, under a trace that plans calls. `states` are tensors for states(), which the planned calls
  /// write. May be called once.
  Tensor run(const Tensor& block, std::span<const Tensor> states, const std::shared_ptr<const StreamClock>& clock);

  // ---- For rules.

  bool is_signal(const SignalCall& call, std::size_t operand) const { return call.operands[operand] >= 0; }
  /// Throws Error if the operand is a constant, or the last state of a recurrence.
  const Signal& operand(const SignalCall& call, std::size_t i) const;
  /// The operand with all its samples in its slot.
  Signal whole_operand(const SignalCall& call, std::size_t i);
  /// Brings all operands that are signals to one delay; constants become Tensors of a block. Throws Error if they do
  /// not share their time axis and rate.
  struct Joined {
    std::vector<Signal> signals;
    std::function<std::vector<Tensor>(const StreamFrame&)> operands;
  };
  Joined joined(const SignalCall& call);

  using Compute = std::function<Tensor(const Tensor& x)>;
  /// f of the samples that the outputs of a block read, and of fewer than `stride` behind them; `padding` surrounds the
  /// signal.
  Signal local(const Signal& x, const Reach& reach, double padding, const Compute& f);
  /// f of the block behind `history` samples.
  Signal with_history(const Signal& x, std::int64_t history, const Compute& f);
  /// f of the block itself.
  Signal each(const Signal& x, const Compute& f);
  /// A value of the operands' blocks, like x.
  Signal of_frame(const Signal& x, std::function<Tensor(const StreamFrame&)> f);
  std::size_t add_length(const LengthRule& rule);
  /// Returns its place among the states.
  std::size_t add_state(ProgramState state);
  /// Result r of the call is x, with the call's shape and dtype. Throws Error if its length would not be as recorded.
  void define(const SignalCall& call, std::size_t r, Signal x);

 private:
  struct Step {
    std::size_t slot;
    std::function<Tensor(const StreamFrame&)> compute;
  };
  struct Window {
    std::size_t slot, from;
    WindowSpec spec;
  };
  struct Meeting {
    const SignalCall* call;
    std::size_t a, b;  // lengths
  };

  void translate(SignalCall& call);
  void repeat(SignalCall& call);
  // x behind `history` samples, with the padding around the signal in place.
  Signal window(const Signal& x, std::int64_t history);
  Signal whole(const Signal& x);
  // x, late enough: if samples have been cut from the end of a signal, a sample may be padding, which only later
  // samples reveal.
  Signal settled(const Signal& x);
  Signal at_delay(const Signal& x, std::int64_t delay);
  Shape block_shape(const Signal& x) const;

  std::int64_t block_;
  SignalCalls calls_;
  std::vector<std::optional<Signal>> values_;
  std::vector<Step> steps_;
  std::vector<Window> windows_;
  std::vector<ProgramState> states_;
  std::vector<LengthRule> lengths_;
  std::vector<Meeting> meetings_;
  std::vector<std::int64_t> recorded_;  // the lengths for the recorded input
  std::vector<std::string> summary_;    // of each call, without those that depend on the signal's length
  std::int64_t multiple_ = 1, before_ = 0;
  std::size_t slots_ = 1;
  Signal output_;
};

/// The rule for a function, by its name, or null.
using StreamRule = void (*)(StreamProgram& program, SignalCall& call);
StreamRule stream_rule(const SignalCall& call);

}  // namespace adjoint::nn::detail
