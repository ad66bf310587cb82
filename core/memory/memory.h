// The memory of a device's tensors, by purpose.
//
//   reset_peak_memory_stats(kCUDA);
//   train_step();
//   const MemoryStats stats = memory_stats(kCUDA);
//   std::cout << stats.peak << " bytes, of them " << stats[MemoryCategory::kSaved].peak << " saved for backward\n";
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace adjoint {

/// The purpose of a tensor's memory:
/// - kParameters: leaves that require a gradient (requires_grad_);
/// - kGradients: results of a sweep, and tensors passed to set_grad();
/// - kOptimizer: tensors made under a MemoryScope of that name, such as an optimiser's state;
/// - kSaved: tensors that a tape keeps for its gradients, and that belong to none of the others;
/// - kWorkspace: memory that CUDA kernels use during a call;
/// - kOther: inputs, results that nothing keeps, buffers.
enum class MemoryCategory : std::uint8_t { kOther, kParameters, kGradients, kOptimizer, kSaved, kWorkspace };
inline constexpr std::size_t kMemoryCategories = 6;

/// "other", "parameters", "gradients", "optimizer", "saved for backward", "workspace".
ADJOINT_API const char* to_string(MemoryCategory category);

/// Bytes requested for live tensors: now, and at the peak since the last reset_peak_memory_stats().
struct MemoryUse {
  std::size_t in_use = 0;
  std::size_t peak = 0;
};

struct MemoryStats {
  /// Bytes taken from the system or the driver. This exceeds in_use, because released memory is kept for the next
  /// tensor: on the CPU blocks of 128 KiB and more, up to 1 GiB or an eighth of the machine's memory; see
  /// empty_cache().
  std::size_t held = 0;
  /// Bytes requested for live tensors, now and at the peak. The categories may peak at different times, so the sum of
  /// their peaks may exceed the peak.
  std::size_t in_use = 0;
  std::size_t peak = 0;
  /// Bytes of page-locked memory of the host (core/memory/pinned.h), for kCPU; not part of the others.
  std::size_t pinned = 0;
  std::array<MemoryUse, kMemoryCategories> categories = {};

  const MemoryUse& operator[](MemoryCategory category) const { return categories[static_cast<std::size_t>(category)]; }
};

/// For all threads. Memory that tensors only view (Tensor::from_blob) does not count. Throws Error if the device does
/// not exist.
ADJOINT_API MemoryStats memory_stats(Device device = default_device());
/// Resets peaks to the current use.
ADJOINT_API void reset_peak_memory_stats(Device device = default_device());
/// Returns unused memory: a GPU's to the driver, the CPU's and page-locked memory to the system. Waits for the GPUs.
/// Programs need it only if other programs want the memory: a failed allocation tries it automatically.
ADJOINT_API void empty_cache();

/// While it lives, tensors made by this thread have this category; scopes nest, and the innermost counts.
class ADJOINT_API MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  static MemoryCategory current();

 private:
  MemoryCategory outer_;
};

namespace detail {

/// Counts bytes that are taken (or released).
ADJOINT_API void count_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept;
ADJOINT_API void uncount_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept;
/// For messages: the categories in use on the device and its largest tensors, "in use: ...; largest tensors: ...".
ADJOINT_API std::string memory_report(Device device);

}  // namespace detail
}  // namespace adjoint
