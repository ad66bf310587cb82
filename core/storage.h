// A block of memory on one device, shared by the tensors that view it.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/export.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace adjoint {

class ADJOINT_API Storage {
 public:
  /// Allocates `nbytes` on `device`, uninitialised. Throws OutOfMemoryError where the memory is not there.
  static std::shared_ptr<Storage> allocate(std::size_t nbytes, Device device);
  /// Wraps memory that someone else owns; `release` (may be empty) runs when the last tensor lets go. Where this throws
  /// it does not run: the memory is still the caller's.
  static std::shared_ptr<Storage> wrap(void* data, std::size_t nbytes, Device device, std::function<void()> release);

  Storage(void* data, std::size_t nbytes, Device device) : data_(data), nbytes_(nbytes), device_(device) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  void* data() const { return data_; }
  std::size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }

  /// Counts the writes made through tensors; a saved tensor whose count moved is an error at the sweep.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// Frozen by as many sweeps as still read these elements and have shown them to a user's function: until they thaw,
  /// writing through a tensor is an error.
  bool frozen() const { return frozen_.load(std::memory_order_relaxed) != 0; }
  void freeze() { frozen_.fetch_add(1, std::memory_order_relaxed); }
  void thaw() { frozen_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  void* data_;
  std::size_t nbytes_;
  Device device_;
  bool owned_ = true;
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> frozen_{0};
  std::function<void()> release_;
  void* stream_ = nullptr;  // CUDA: the stream whose order the allocation and the release follow
};

/// Gets the size of a block and its device before each allocation of the process; what it throws, the allocation
/// throws.
using AllocationObserver = void (*)(std::size_t nbytes, Device device);

/// For tests of what happens where memory is short; null for none.
ADJOINT_API void observe_allocations(AllocationObserver observer);

}  // namespace adjoint
