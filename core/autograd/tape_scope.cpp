// Determines which tape records on a thread: the innermost of its tapes and pauses. They form a list, and may leave it
// in any order, and on another thread than the one that they are listed for.
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/base/forked.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace adjoint {
namespace {

std::mutex links;  // guards every list; never held while anything else runs
const HeldAtFork links_at_fork(links);

}  // namespace

namespace detail {

struct ThreadTapes {
  ThreadTapes() : recording(&context().tape) {}
  ~ThreadTapes() {
    const std::lock_guard lock(links);
    for (TapeScope* scope = innermost; scope != nullptr; scope = scope->outer_) scope->thread_ = nullptr;
    recording->store(nullptr, std::memory_order_relaxed);
  }

  // The recording tape is stored first: see inherit().
  void set_innermost(TapeScope* scope) {
    recording->store(scope == nullptr ? inherited : scope->tape_, std::memory_order_relaxed);
    innermost = scope;
  }

  void add(TapeScope& scope) {
    const std::lock_guard lock(links);
    scope.outer_ = innermost;
    set_innermost(&scope);
  }

  static void remove(TapeScope& scope) {
    const std::lock_guard lock(links);
    ThreadTapes* const thread = scope.thread_;
    if (thread == nullptr) return;
    if (thread->innermost == &scope) return thread->set_innermost(scope.outer_);
    TapeScope* inner = thread->innermost;
    while (inner->outer_ != &scope) inner = inner->outer_;
    inner->outer_ = scope.outer_;
  }

  bool used(const Tensor& tensor) const {
    const std::lock_guard lock(links);
    const TapeScope* scope = innermost;
    for (; scope != nullptr && scope->tape_ != nullptr; scope = scope->outer_) {
      if (scope->tape_->impl().find(tensor) >= 0) return true;
    }
    return scope == nullptr && inherited != nullptr && inherited->impl().find(tensor) >= 0;
  }

  TapeImpl* find(std::uint64_t serial) const {
    const std::lock_guard lock(links);
    for (const TapeScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
      if (scope->tape_ != nullptr && scope->tape_->impl().serial() == serial) return &scope->tape_->impl();
    }
    return nullptr;
  }

  // Atomic for inherit(), which does not lock while the list is empty: no other thread can change it then.
  std::atomic<TapeScope*> innermost{nullptr};
  Tape* inherited = nullptr;  // the recording tape while the list is empty
  std::atomic<Tape*>* recording;

  void inherit(Tape* tape) {
    if (innermost == nullptr) {
      inherited = tape;
      recording->store(tape, std::memory_order_relaxed);
      return;
    }
    const std::lock_guard lock(links);  // a task left a tape behind
    inherited = tape;
    set_innermost(innermost);
  }
};

namespace {

thread_local ThreadTapes thread_tapes;

}  // namespace

TapeScope::TapeScope(Tape* tape) : tape_(tape), outer_(nullptr), thread_(&thread_tapes) { thread_->add(*this); }
TapeScope::~TapeScope() { ThreadTapes::remove(*this); }

TapeImpl* find_live_tape(std::uint64_t serial) { return thread_tapes.find(serial); }
bool used_by_a_tape(const Tensor& tensor) { return thread_tapes.used(tensor); }

HiddenTape::HiddenTape() : tape_(context().tape.load(std::memory_order_relaxed)) {
  context().tape.store(nullptr, std::memory_order_relaxed);
}
HiddenTape::~HiddenTape() { context().tape.store(tape_, std::memory_order_relaxed); }

InheritTape::InheritTape(Tape* tape) : inherits_(tape != nullptr) {
  if (inherits_) thread_tapes.inherit(tape);
}
InheritTape::~InheritTape() {
  if (inherits_) thread_tapes.inherit(nullptr);
}

void mark_outside(const Tensor& base, const Tensor& result) {
  const TensorImpl& from = *base.impl();
  const bool loses_gradient = (from.requires_grad || from.recorded()) && thread_tapes.innermost == nullptr;
  if (loses_gradient || from.outside_view) result.impl()->outside_view = true;
}

void mark_view(const Tensor& base, const Tensor& view) {
  if (base.impl()->recorded() || base.impl()->views_recorded) view.impl()->views_recorded = true;
  mark_outside(base, view);
}

}  // namespace detail

Tape* Tape::current() { return detail::context().tape.load(std::memory_order_relaxed); }

}  // namespace adjoint
