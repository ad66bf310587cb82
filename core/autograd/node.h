// You are at stop 2 of 7 of the README's reading path, the tape: this is a recorded call. tape.cpp comes next.
//
// The tape's internals: nodes, their arena, and how apply() records one. Internal to core and op.h.
#pragma once

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/profile/profiled_call.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace adjoint::detail {

/// One recorded call: its operands, and the tensors that their gradients need. Lives in the tape's arena. Its results
/// have consecutive ids, and its entry is at the first.
class Node {
 public:
  virtual ~Node() { release(); }
  virtual const char* name() const = 0;
  /// For each operand with needed[i], writes its gradient to operand_grads[i], from the results' gradients `grads`, at
  /// least one of which is defined; undefined stands for zero in both. Rules are written in operators, which are
  /// recorded if the sweep is: see Tape::current().
  virtual void backward(std::span<const Tensor> grads, const std::vector<bool>& needed,
                        std::vector<Tensor>& operand_grads) = 0;
  /// Returns true if backward() restores the contents of this saved tensor after any later write.
  virtual bool restores(const Tensor& /*saved*/) const { return false; }

  std::size_t size = 0;  // operands
  std::size_t results = 1;
  std::size_t outputs = 1;            // results, then tensors that only the gradient needs
  std::int64_t* ids = nullptr;        // (size): the operands' ids, -1 if no gradient flows
  Tensor* saved = nullptr;            // (size + outputs): the operands and outputs that rules need
  std::uint32_t* versions = nullptr;  // (size + outputs): their storages' versions at the time of saving
  bool released = false;

  /// Releases the tensors that the gradients needed: there will be no other sweep.
  void release() {
    for (std::size_t i = 0; saved != nullptr && i < size + outputs; ++i) {
      if (saved[i].defined()) saved[i].impl()->storage->unsave();
      std::destroy_at(&saved[i]);
    }
    saved = nullptr;
    released = true;
  }
};

struct DestroyInArena {
  void operator()(Node* node) const { node->~Node(); }
};
/// Owns a node that lives in an arena.
template <class N>
using NodePtr = std::unique_ptr<N, DestroyInArena>;

/// Detects which of several tensors, which may be undefined, was written to since.
class ADJOINT_API Versions {
 public:
  explicit Versions(std::span<const Tensor> tensors);
  /// Returns the index of the first such tensor, or the number of tensors if no tensor matches.
  std::size_t first_changed() const;

 private:
  std::vector<std::pair<std::shared_ptr<Storage>, std::uint32_t>> before_;
};

/// Stands for the id of a leaf that is not on the tape yet.
inline constexpr std::int64_t kNewLeaf = -2;

/// A save mask's bit i is operand i, and the last of these bits covers all operands from there on; results follow in
/// the same way. Tensors that only the gradient needs are always saved.
inline constexpr unsigned kSavedOperandBits = 24;
inline constexpr std::uint32_t kSaveEveryOperand = (1U << kSavedOperandBits) - 1U;
inline constexpr std::uint32_t kSaveEveryResult = ~kSaveEveryOperand;

struct SweepOptions {
  bool to_leaves = false;        // accumulate into every leaf's .grad()
  bool stop_at_targets = false;  // the result as a function of the targets alone, ignoring their own dependencies
};

class TapeImpl {
 public:
  explicit TapeImpl(const Tape& owner);

  template <class N, class... Args>
  NodePtr<N> make_node(Args&&... args) {
    return NodePtr<N>(new (arena_.allocate(sizeof(N), alignof(N))) N(std::forward<Args>(args)...));
  }
  /// The id of an operand on this tape; -1 if no gradient flows to it.
  std::int64_t id_of(const char* op, const Tensor& operand) const;
  /// Throws Error in a task of a parallel_for in which this tape was not made.
  void check_task(const char* op) const;
  /// Appends `node`, with the operands' ids `ids`, after the new leaves among them. The first `results` of `outs`
  /// become recorded if their dtype is floating point; only the gradient needs the rest.
  void append(NodePtr<Node> node, std::span<const Tensor> in, std::span<const std::int64_t> ids,
              std::span<const Tensor> outs, std::size_t results, std::uint32_t save_mask);

  /// d(result)/d(each target), by id; undefined if the result does not depend on it. The caller keeps this alive.
  std::vector<Tensor> sweep(const char* caller, const Tensor& result, const std::vector<std::int64_t>& targets,
                            const GradientOptions& options, const SweepOptions& how);
  /// The id of a tensor on this tape; -1 for any other.
  std::int64_t find(const Tensor& tensor) const;

  std::uint64_t add_hook(std::int64_t id, GradientHook hook);
  void remove_hook(std::uint64_t hook_id);

  /// Puts a leaf that requires a gradient on this tape; does nothing for any other tensor.
  void add_leaf(const Tensor& tensor);

  /// Counts a call while this tape records, recorded or not.
  void count_call() { calls_.fetch_add(1, std::memory_order_relaxed); }
  /// The Tape is gone; a running sweep throws.
  void end() { ended_ = true; }
  std::uint64_t serial() const { return serial_; }
  std::size_t size() const { return entries_.size(); }
  /// Leaves seen so far, in order of first use.
  std::vector<Tensor> leaves() const;

 private:
  // An operation (node), a leaf, or neither: one of an operation's later results.
  struct Entry {
    NodePtr<Node> node;
    Tensor leaf;
  };
  class Frozen;

  void reserve(std::size_t more);
  std::int64_t register_leaf(const Tensor& leaf);
  void trace(const Node& node, std::span<const Tensor> in);
  Tensor seed(const char* caller, const Tensor& result, const GradientOptions& options) const;
  std::vector<Tensor> leaves_behind(std::int64_t last) const;
  std::vector<bool> reachable(const std::vector<std::int64_t>& targets, std::int64_t last) const;
  std::map<std::uint64_t, GradientHook> hooks_of(std::int64_t id) const;
  Tensor run_hooks(const char* caller, std::int64_t id, Tensor grad, Frozen& frozen) const;
  std::string describe(std::int64_t id) const;
  const ProfilePlace* place_of(std::int64_t id) const;
  void check_saved(const char* caller, std::int64_t id) const;
  void check_nan(std::int64_t id, std::span<const Tensor> in, const Tensor& out) const;
  [[noreturn]] void not_recorded(const char* caller, const Tensor& result) const;

  const Tape& owner_;
  std::uint64_t serial_;
  const void* task_;  // current_task() at the tape's creation
  bool ended_ = false;
  std::atomic<std::uint64_t> calls_{0};  // tasks of a parallel_for call operators under their caller's tape
  std::pmr::monotonic_buffer_resource arena_;
  std::vector<Entry> entries_;  // destroyed before the arena of its nodes
  std::unordered_map<const TensorImpl*, std::int64_t> leaf_ids_;
  std::unordered_map<std::int64_t, std::map<std::uint64_t, GradientHook>> hooks_;  // for recorded tensors, by id
  std::unordered_map<std::int64_t, std::string> traces_;                           // anomaly mode: describes each call
  std::unordered_map<std::int64_t, ProfilePlace> places_;                          // of gradients, while profiling
};

/// Decides, before an operation runs, if it will be recorded, and then records it.
class ADJOINT_API Recording {
 public:
  Recording(Tape& tape, const char* op, std::size_t size);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Operand i has a gradient rule. Throws Error for an operand of an outer, gone or foreign tape.
  void use(std::size_t i, const Tensor& operand);
  bool needed() const { return needed_; }
  bool needs(std::size_t i) const { return ids()[i] != -1; }
  /// Records the call, as TapeImpl::append does, or throws and leaves the tape and `outs` unchanged.
  void commit(NodePtr<Node> node, std::span<const Tensor> in, std::span<const Tensor> outs, std::size_t results,
              std::uint32_t save_mask);

 private:
  static constexpr std::size_t kInline = 4;
  std::int64_t* ids() { return many_.empty() ? few_ : many_.data(); }
  const std::int64_t* ids() const { return many_.empty() ? few_ : many_.data(); }

  TapeImpl& tape_;
  const char* op_;
  std::size_t size_;
  bool needed_ = false;
  std::int64_t few_[kInline] = {-1, -1, -1, -1};
  std::vector<std::int64_t> many_;
};

/// The live tape of this thread with this serial number; null if there is none.
TapeImpl* find_live_tape(std::uint64_t serial);
/// Returns true if a tape of this thread, up to the innermost pause, has used the tensor.
ADJOINT_API bool used_by_a_tape(const Tensor& tensor);

/// Notes in a view that was made while no tape records if its base was recorded, and if the view would lose its base's
/// gradient (see TensorImpl).
ADJOINT_API void mark_view(const Tensor& base, const Tensor& view);
/// The second half of mark_view, for a copy that might have been the tensor itself, such as contiguous()'s.
ADJOINT_API void mark_outside(const Tensor& base, const Tensor& result);

/// Hides the recording tape of this thread from a kernel, which may be composed of other operators. Like PauseTape,
/// without its lock: for code that neither makes nor ends a tape.
class ADJOINT_API HiddenTape {
 public:
  HiddenTape();
  ~HiddenTape();
  HiddenTape(const HiddenTape&) = delete;
  HiddenTape& operator=(const HiddenTape&) = delete;

 private:
  Tape* tape_;
};

/// Makes a pool thread see the tape of the thread that it works for.
class InheritTape {
 public:
  explicit InheritTape(Tape* tape);
  ~InheritTape();
  InheritTape(const InheritTape&) = delete;
  InheritTape& operator=(const InheritTape&) = delete;

 private:
  bool inherits_;
};

}  // namespace adjoint::detail
