// How a forked process handles its parent's threads. Internal.
#pragma once

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

}  // namespace adjoint
