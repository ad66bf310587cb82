// You are at stop 1 of 7 of the README's reading path, the tensor: this is the memory under it. tensor_impl.h comes
// next.
//
// A block of memory on one device, shared by the tensors that view it.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/memory/memory.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace adjoint {

struct TensorSpec;
namespace detail {
class KeptForms;
class LargeBlock;
}  // namespace detail

class ADJOINT_API Storage {
 public:
  /// Allocates `nbytes` on `device`, uninitialised, for a tensor of `spec`, which messages describe (null: no tensor).
  /// Throws OutOfMemoryError if memory is short.
  static std::shared_ptr<Storage> allocate(std::size_t nbytes, Device device, const TensorSpec* spec = nullptr);
  /// Wraps memory that someone else owns; `release` (may be empty) runs when the last tensor is destroyed. If this
  /// throws, it does not run, and the caller still owns the memory.
  static std::shared_ptr<Storage> wrap(void* data, std::size_t nbytes, Device device, std::function<void()> release);
  /// Page-locked memory of the host (core/memory/pinned.h). Ordinary memory without a GPU.
  static std::shared_ptr<Storage> allocate_pinned(std::size_t nbytes);

  Storage(void* data, std::size_t nbytes, Device device);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  void* data() const { return data_; }
  std::size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  bool pinned() const { return pinned_; }

  /// The category of the memory (core/memory/memory.h): kOther becomes kSaved while a tape keeps it.
  MemoryCategory category() const { return counted_as(use_.load(std::memory_order_relaxed)); }
  void set_category(MemoryCategory category);
  /// Called when a tape starts, and stops, keeping it.
  void save() { change_use(use_.fetch_add(kOneSave, std::memory_order_relaxed), kOneSave); }
  void unsave() { change_use(use_.fetch_sub(kOneSave, std::memory_order_relaxed), 0U - kOneSave); }

  /// Counts the writes made through tensors; if the count of a saved tensor changed, the sweep throws.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// Together with the elements of that count: tensors saved at it are valid again.
  void set_version(std::uint32_t version) { version_.store(version, std::memory_order_relaxed); }
  /// The number of the latest StateLog (core/autograd/state_log.h) at its creation.
  std::uint64_t made_after() const { return made_after_; }

  /// Counts the running sweeps that still read these elements and have shown them to a user's function: meanwhile,
  /// writing through a tensor is an error.
  bool frozen() const { return frozen_.load(std::memory_order_relaxed) != 0; }
  void freeze() { frozen_.fetch_add(1, std::memory_order_relaxed); }
  void thaw() { frozen_.fetch_sub(1, std::memory_order_relaxed); }

  /// If a program froze these elements for inference: the forms that kernels derived from them. Null otherwise. If it
  /// is set, writing through a tensor is an error. Do not set it while others compute with the elements.
  detail::KeptForms* forms() const { return forms_.get(); }
  const std::shared_ptr<detail::KeptForms>& shared_forms() const { return forms_; }
  void set_forms(std::shared_ptr<detail::KeptForms> forms) { forms_ = std::move(forms); }

 private:
  // The lower 8 bits hold the category, and the upper ones the number of saves.
  static constexpr std::uint32_t kOneSave = 256;
  static MemoryCategory counted_as(std::uint32_t use) {
    const auto own = static_cast<MemoryCategory>(use % kOneSave);
    return own == MemoryCategory::kOther && use >= kOneSave ? MemoryCategory::kSaved : own;
  }
  void change_use(std::uint32_t before, std::uint32_t change) {
    if (counted_as(before) != counted_as(before + change)) recount(before, before + change);
  }
  void recount(std::uint32_t before, std::uint32_t after);

  void* data_;
  std::size_t nbytes_;
  std::uint64_t made_after_;
  Device device_;
  bool owned_ = true;
  bool pinned_ = false;
  bool counted_ = false;
  std::atomic<std::uint32_t> use_;
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> frozen_{0};
  std::function<void()> release_;
  std::unique_ptr<detail::LargeBlock> large_;
  std::shared_ptr<detail::KeptForms> forms_;
  void* stream_ = nullptr;  // CUDA: the stream that orders the allocation and the release
};

/// Gets the size of a block and its device before each allocation of the process; its exceptions propagate out of the
/// allocation.
using AllocationObserver = void (*)(std::size_t nbytes, Device device);

/// For tests of memory shortage; null for no observer.
ADJOINT_API void observe_allocations(AllocationObserver observer);

}  // namespace adjoint
