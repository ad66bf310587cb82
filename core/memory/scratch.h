// Scratch memory of a planned network: temporary tensors of its operators take their memory from one block, and return
// it together at the end of each call. Internal.
#pragma once

#include <adjoint/core/base/export.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::detail {

class ADJOINT_API Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// `nbytes` at a multiple of 64, valid until clear(). Allocates only if the block is too small. Throws
  /// std::bad_alloc.
  void* allocate(std::size_t nbytes);
  /// Ends the life of everything that was allocated, and makes the block as large as the most that was needed so far.
  /// If it returns true, it does not allocate.
  void clear();
  /// Bytes of the block.
  std::size_t nbytes() const { return size_; }

  /// This thread's; null outside planned calls.
  static Scratch* current() { return current_; }

 private:
  friend class ScratchScope;
  static constinit thread_local Scratch* current_;

  std::byte* block_ = nullptr;
  std::size_t size_ = 0, used_ = 0;
  std::vector<void*> more_;  // one block for each allocation that did not fit
};

/// Temporary tensors on the CPU take their memory from `scratch` while it lives.
class ScratchScope {
 public:
  explicit ScratchScope(Scratch* scratch) : outer_(std::exchange(Scratch::current_, scratch)) {}
  ~ScratchScope() { Scratch::current_ = outer_; }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  Scratch* outer_;
};

/// Takes memory from the scratch memory of the thread that makes it, and from the system if there is none.
template <class T>
class ScratchAllocator {
 public:
  using value_type = T;

  ScratchAllocator() : scratch(Scratch::current()) {}
  template <class U>
  ScratchAllocator(const ScratchAllocator<U>& other) : scratch(other.scratch) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    if (scratch == nullptr) [[likely]]
      return std::allocator<T>().allocate(count);
    return static_cast<T*>(scratch->allocate(count * sizeof(T)));
  }
  void deallocate(T* data, std::size_t count) {
    if (scratch == nullptr) std::allocator<T>().deallocate(data, count);
  }
  template <class U>
  bool operator==(const ScratchAllocator<U>& other) const {
    return scratch == other.scratch;
  }

  Scratch* scratch;
};

/// std::make_shared, in the scratch memory of this thread if there is one.
template <class T, class... Args>
std::shared_ptr<T> make_shared_in_scratch(Args&&... args) {
  if (Scratch::current() != nullptr) [[unlikely]]
    return std::allocate_shared<T>(ScratchAllocator<T>(), std::forward<Args>(args)...);
  return std::make_shared<T>(std::forward<Args>(args)...);
}

}  // namespace adjoint::detail

namespace adjoint {

/// For a kernel's temporary values.
template <class T>
using ScratchVector = std::vector<T, detail::ScratchAllocator<T>>;

}  // namespace adjoint
