// You are at stop 2 of 7 of the README's reading path, the tape: this is its interface. op.h comes next.
//
// The tape: an explicit Wengert list, scoped by RAII. Reverse-mode differentiation is one loop from its end.
//
//   adjoint::Tape tape;                     // records on this thread while it lives
//   Tensor loss = mse_loss(net(x), y);
//   tape.backward(loss);                    // adds to .grad() of every leaf that requires it
//
// Nodes are in execution order, so the sweep needs no sort and no recursion. Tapes nest within a thread, and the
// innermost records; they may end in any order, and on any thread. Tapes of several threads may share leaves. Without a
// live tape nothing is recorded.
//
// A call that throws, also for lack of memory, changes neither a .grad() nor the tape, and may be repeated. The
// exception is a sweep without .retain, which frees saved tensors as it goes.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adjoint {

struct BackwardOptions {
  /// Keep the tensors that the gradients need, for another sweep over the same nodes, even if this one throws.
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
  /// A null `tape` means a pause.
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
  /// Without .retain it frees a call's saved tensors as soon as its gradients are computed; if it throws after that, no
  /// .grad() has changed, but only the forward calls can be repeated, not the sweep. Throws Error for a result that
  /// this tape did not record, one of several elements without grad_output, values changed in place since they were
  /// saved, a second sweep without retain, and a hook that ends the tape, or that sweeps and recurses without end.
  void backward(const Tensor& result, const BackwardOptions& options = {});
  /// d(result)/d(input) for each input, a leaf or any recorded tensor. Never touches .grad().
  std::vector<Tensor> gradient(const Tensor& result, const std::vector<Tensor>& inputs,
                               const GradientOptions& options = {});

  /// The number of recorded operations and leaves.
  std::size_t size() const;

  /// The tape that currently records on this thread; null if there is none. The functions backward and gradient sweep
  /// with it.
  static Tape* current();
  /// For operators and hooks.
  detail::TapeImpl& impl() { return *impl_; }

 private:
  std::shared_ptr<detail::TapeImpl> impl_;  // a sweep shares it, because a hook may end the tape
  detail::TapeScope scope_;
};

/// Tape::backward with the tape that currently records on this thread. Also throws Error if there is none.
ADJOINT_API void backward(const Tensor& result, const BackwardOptions& options = {});
/// d(result)/d(input) for each input: Tape::gradient with the tape that currently records on this thread. Also throws
/// Error if there is none.
ADJOINT_API std::vector<Tensor> gradient(const Tensor& result, const std::vector<Tensor>& inputs,
                                         const GradientOptions& options = {});

/// Hides every tape of this thread while it lives; a tape made inside it records again.
class ADJOINT_API PauseTape {
 public:
  PauseTape() : scope_(nullptr) {}

 private:
  detail::TapeScope scope_;
};

/// f(inputs), keeping the inputs and not f's intermediate results: the sweep computes f again, from the same random
/// numbers. Leaves that f captures get their gradients too; a recorded tensor that f captures is an error: pass it as
/// an input.
///
/// Other tensors that f changes in place, such as BatchNorm's statistics, change once: the second run starts from the
/// contents that the first one found, and afterwards restores those from before it. This covers only writes to
/// elements, by the calling thread. Other state of f is seen changed by the second run, and is changed again: numbers
/// in members of a class, and handles to which f assigns another tensor. A module that runs in f must keep its state in
/// buffers, and write to these in place.
///
/// Exact for any f whose result depends only on its inputs, its leaves, such tensors and random numbers. Throws Error
/// for an empty f, and for one that changes an input in place.
ADJOINT_API Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs);

/// While on, a recorded call that turns finite operands into NaN or infinity throws an Error that names it. Sweeps
/// throw at the first NaN gradient computed from a gradient without NaN, and name the forward call: its operator, its
/// operands' shapes, the path and type of the module that made it, and its number on the tape. Slow: every result and
/// every gradient is read back.
ADJOINT_API void set_anomaly_mode(bool on);
ADJOINT_API bool anomaly_mode();

}  // namespace adjoint
