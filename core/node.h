// The tape's inside: nodes, the arena they live in, and how apply() records one. Internal to core and op.h.
#pragma once

#include <adjoint/core/profiled_call.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>

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

/// One recorded call: who its operands were, and what their gradients need. Lives in the tape's arena. Its results have
/// ids that follow each other, and it stands at the first.
class Node {
 public:
  virtual ~Node() { release(); }
  virtual const char* name() const = 0;
  /// Writes to operand_grads[i], for each operand with needed[i], its gradient from the results' gradients `grads`, of
  /// which one is defined at least; undefined stands for zero in both. Written in operators, which are recorded where
  /// the sweep is: Tape::current() tells.
  virtual void backward(std::span<const Tensor> grads, const std::vector<bool>& needed,
                        std::vector<Tensor>& operand_grads) = 0;

  std::size_t size = 0;  // operands
  std::size_t results = 1;
  std::size_t outputs = 1;            // results, and behind them what only the gradient needs
  std::int64_t* ids = nullptr;        // (size): the operand's id, -1 where no gradient flows
  Tensor* saved = nullptr;            // (size + outputs): what rules need of operands and outputs
  std::uint32_t* versions = nullptr;  // (size + outputs): their storages' versions when they were saved
  bool released = false;

  /// Lets go of what the gradients needed: there will be no other sweep.
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

/// Tells which of several tensors, which may be undefined, has been written to since.
class ADJOINT_API Versions {
 public:
  explicit Versions(std::span<const Tensor> tensors);
  /// The index of the first; how many there are where none has.
  std::size_t first_changed() const;

 private:
  std::vector<std::pair<std::shared_ptr<Storage>, std::uint32_t>> before_;
};

/// In place of the id of a leaf that is not on the tape yet.
inline constexpr std::int64_t kNewLeaf = -2;

/// A save mask's bit i is operand i, the last of these all from there on; results come behind, likewise. What only the
/// gradient needs is saved always.
inline constexpr unsigned kSavedOperandBits = 24;
inline constexpr std::uint32_t kSaveEveryOperand = (1U << kSavedOperandBits) - 1U;
inline constexpr std::uint32_t kSaveEveryResult = ~kSaveEveryOperand;

struct SweepOptions {
  bool to_leaves = false;        // accumulate into every leaf's .grad()
  bool stop_at_targets = false;  // the result as a function of the targets alone, whatever they depend on
};

class TapeImpl {
 public:
  explicit TapeImpl(const Tape& owner);

  template <class N, class... Args>
  NodePtr<N> make_node(Args&&... args) {
    return NodePtr<N>(new (arena_.allocate(sizeof(N), alignof(N))) N(std::forward<Args>(args)...));
  }
  /// The id of an operand on this tape; -1 where no gradient flows to it.
  std::int64_t id_of(const char* op, const Tensor& operand) const;
  /// Throws Error in a task of a parallel_for that this tape was not made in.
  void check_task(const char* op) const;
  /// Appends `node`, whose operands' ids are `ids`, after the leaves among them that are new. The first `results` of
  /// `outs` become recorded, where their dtype is floating point; what stands behind them only the gradient needs.
  void append(NodePtr<Node> node, std::span<const Tensor> in, std::span<const std::int64_t> ids,
              std::span<const Tensor> outs, std::size_t results, std::uint32_t save_mask);

  /// d(result)/d(each target), by id; undefined where the result does not depend on it. The caller holds this alive.
  std::vector<Tensor> sweep(const char* caller, const Tensor& result, const std::vector<std::int64_t>& targets,
                            const GradientOptions& options, const SweepOptions& how);
  /// The id of a tensor that is on this tape; -1 for any other.
  std::int64_t find(const Tensor& tensor) const;

  std::uint64_t add_hook(std::int64_t id, GradientHook hook);
  void remove_hook(std::uint64_t hook_id);

  /// Puts a leaf that requires a gradient on this tape; nothing for any other tensor.
  void add_leaf(const Tensor& tensor);

  /// A call ran while this tape recorded, whether it was recorded or not.
  void count_call() { calls_.fetch_add(1, std::memory_order_relaxed); }
  /// The Tape is gone; a sweep that is under way throws.
  void end() { ended_ = true; }
  std::uint64_t serial() const { return serial_; }
  std::size_t size() const { return entries_.size(); }
  /// Leaves seen so far, in order of first use.
  std::vector<Tensor> leaves() const;

 private:
  // An operation (node), a leaf, or neither: a result behind its operation's first.
  struct Entry {
    NodePtr<Node> node;
    Tensor leaf;
  };
  class Frozen;

  void reserve(std::size_t more);
  std::int64_t register_leaf(const Tensor& leaf);
  void trace(const Node& node, std::span<const Tensor> in);
  Tensor seed(const char* caller, const Tensor& result, const GradientOptions& options) const;
  std::vector<bool> reachable(const std::vector<std::int64_t>& targets, std::int64_t last) const;
  std::map<std::uint64_t, GradientHook> hooks_of(std::int64_t id) const;
  Tensor run_hooks(std::int64_t id, Tensor grad, Frozen& frozen) const;
  std::string describe(std::int64_t id) const;
  const ProfilePlace* place_of(std::int64_t id) const;
  void check_saved(const char* caller, std::int64_t id) const;
  void check_nan(std::int64_t id, std::span<const Tensor> in, const Tensor& out) const;
  [[noreturn]] void not_recorded(const char* caller, const Tensor& result) const;

  const Tape& owner_;
  std::uint64_t serial_;
  const void* task_;  // current_task() where the tape was made
  bool ended_ = false;
  std::atomic<std::uint64_t> calls_{0};  // tasks of a parallel_for call operators under their caller's tape
  std::pmr::monotonic_buffer_resource arena_;
  std::vector<Entry> entries_;  // goes before the arena that its nodes live in
  std::unordered_map<const TensorImpl*, std::int64_t> leaf_ids_;
  std::unordered_map<std::int64_t, std::map<std::uint64_t, GradientHook>> hooks_;  // of recorded tensors, by id
  std::unordered_map<std::int64_t, std::string> traces_;                           // anomaly mode: what each call was
  std::unordered_map<std::int64_t, ProfilePlace> places_;                          // of gradients, while profiled
};

/// Decides, before an operation runs, whether it will be recorded, and then records it.
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
  /// Records the call, as TapeImpl::append does, or throws and leaves the tape and `outs` as they were.
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

/// The live tape of this thread with this serial number; null where there is none.
TapeImpl* find_live_tape(std::uint64_t serial);
/// A tape of this thread has used the tensor, up to the innermost pause.
ADJOINT_API bool used_by_a_tape(const Tensor& tensor);

/// A view made where nothing records: remembers whether its base was recorded, and whether it would lose its base's
/// gradient (see TensorImpl).
ADJOINT_API void mark_view(const Tensor& base, const Tensor& view);
/// The second half of mark_view, for a copy that may as well have been the tensor itself, as contiguous() gives.
ADJOINT_API void mark_outside(const Tensor& base, const Tensor& result);

/// A pool thread sees the tape of the thread that it works for, while it does.
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
