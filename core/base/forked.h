// The duties of a process that is forked from one with several threads: it has none of the other threads, and finds
// the process's data as they left it. Internal.
#pragma once

#include <adjoint/core/base/export.h>

#include <mutex>
#include <utility>
#include <vector>

namespace adjoint {

/// Never destroys the object: threads that run only in the parent, and the locks that they hold, can be neither joined
/// nor destroyed here.
template <class T>
void leave_to_parent(T what) {
  static auto* const mutex = new std::mutex;
  static auto* const left = new std::vector<T>;
  const std::lock_guard lock(*mutex);
  left->push_back(std::move(what));
}

/// Lets fork() wait until no other thread holds the mutex. Otherwise a child that is forked meanwhile would find the
/// mutex locked permanently, and its data half changed. The mutex must never be destroyed, and no thread may fork while
/// it holds it.
class ADJOINT_API HeldAtFork {
 public:
  explicit HeldAtFork(std::mutex& mutex);
};

}  // namespace adjoint
