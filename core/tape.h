// The tape: an explicit Wengert list, scoped by RAII. Reverse-mode differentiation is one loop from its end.
//
//   adjoint::Tape tape;                     // records on this thread while it lives
//   Tensor loss = mse_loss(net(x), y);
//   tape.backward(loss);                    // adds to .grad() of every leaf that requires it
//
// Nodes stand in execution order, so the sweep needs no sort and no recursion. Tapes nest within a thread, and the
// innermost records; they may end in any order, and on another thread than the one that made them. Tapes of several
// threads may share leaves. With no tape alive nothing is recorded.
//
// Everything here is all or nothing: what throws, for want of memory too, has changed no .grad(), nor what the tape
// holds, and may be tried again; but for a sweep without .retain, which lets go of what it has passed.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adjoint {

struct BackwardOptions {
  /// Keep what the gradients need, for another sweep over the same nodes, also where this one throws.
  bool retain = false;
  /// Record the sweep itself, for derivatives of a higher order. Implies retain.
  bool record = false;
  /// Gradient of the result, of its shape; undefined means 1, for a result of one element.
  Tensor grad_output = {};
};

struct GradientOptions {
  bool retain = false;
  bool record = false;
  Tensor grad_output = {};
  /// An undefined Tensor, instead of an error, for an input that the result does not depend on.
  bool allow_unused = false;
};

class Tape;

namespace detail {
class Node;
class Recording;
class TapeImpl;
struct ThreadTapes;

/// A tape, or a pause, among those of the thread that made it. May end in any order and on any thread.
class ADJOINT_API TapeScope {
 public:
  /// A pause where `tape` is null.
  explicit TapeScope(Tape* tape);
  ~TapeScope();
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  friend struct ThreadTapes;
  Tape* tape_;
  TapeScope* outer_;
  ThreadTapes* thread_;  // null once the thread is gone
};
}  // namespace detail

class ADJOINT_API Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Adds d(result)/d(leaf) to .grad() of every leaf that requires a gradient; the result may be such a leaf itself.
  /// Unless told to retain it frees what a call's gradients needed as soon as they are there; where it throws after
  /// that, no .grad() has changed, but only the calls can be made again, not the sweep. Throws Error for a result that
  /// this tape did not record, one of several elements without grad_output, values changed in place since they were
  /// saved, a second sweep without retain, and a hook that ends the tape.
  void backward(const Tensor& result, const BackwardOptions& options = {});
  /// d(result)/d(input) for each input, a leaf or any recorded tensor. Never touches .grad().
  std::vector<Tensor> gradient(const Tensor& result, const std::vector<Tensor>& inputs,
                               const GradientOptions& options = {});

  /// Recorded operations and leaves.
  std::size_t size() const;

  /// The tape that records on this thread now; null where none does.
  static Tape* current();
  /// For operators and hooks.
  detail::TapeImpl& impl() { return *impl_; }

 private:
  std::shared_ptr<detail::TapeImpl> impl_;  // a sweep shares it: a hook may end the tape
  detail::TapeScope scope_;
};

/// Hides every tape of this thread while it lives; a tape made inside it records again.
class ADJOINT_API PauseTape {
 public:
  PauseTape() : scope_(nullptr) {}

 private:
  detail::TapeScope scope_;
};

/// f(inputs), keeping the inputs instead of f's intermediate results: the sweep computes f again, from the same random
/// state. Leaves that f captures get their gradients too; a recorded tensor that f captures is an error: pass it as an
/// input. Exact for any f whose result depends on its inputs, its leaves and random numbers alone. Throws Error for an
/// empty f, and for one that changes an input in place, which the second run would meet changed.
ADJOINT_API Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs);

/// While on, a recorded call throws Error where it makes NaN or infinity of finite operands, and names itself; and
/// sweeps do at the first gradient that is NaN where the gradient that came in was not, and name the forward call: its
/// operator, its number on the tape, its operands' shapes. Slow: every result and every gradient is read back.
ADJOINT_API void set_anomaly_mode(bool on);
ADJOINT_API bool anomaly_mode();

}  // namespace adjoint
