// How much memory a device's tensors take, and for what.
//
//   reset_peak_memory_stats(kCUDA);
//   train_step();
//   const MemoryStats stats = memory_stats(kCUDA);
//   std::cout << stats.peak << " bytes, of them " << stats[MemoryCategory::kSaved].peak << " saved for backward\n";
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/export.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace adjoint {

/// What a tensor's memory serves:
/// - kParameters: leaves that require a gradient (requires_grad_);
/// - kGradients: what a sweep computes and what set_grad() is given;
/// - kOptimizer: what is made under a MemoryScope of that name, such as an optimiser's state;
/// - kSaved: what a tape keeps for its gradients, and belongs to none of the others;
/// - kWorkspace: what CUDA kernels use for the length of a call;
/// - kOther: inputs, results that nothing keeps, buffers.
enum class MemoryCategory : std::uint8_t { kOther, kParameters, kGradients, kOptimizer, kSaved, kWorkspace };
inline constexpr std::size_t kMemoryCategories = 6;

/// "other", "parameters", "gradients", "optimizer", "saved for backward", "workspace".
ADJOINT_API const char* to_string(MemoryCategory category);

/// Bytes that live tensors asked for: now, and most at once since the last reset_peak_memory_stats().
struct MemoryUse {
  std::size_t in_use = 0;
  std::size_t peak = 0;
};

struct MemoryStats {
  /// Bytes taken from the system or the driver. This exceeds in_use: what is given back is kept for the next tensor, on
  /// the CPU blocks of 128 KiB and more, up to 1 GiB or an eighth of the machine's memory; see empty_cache().
  std::size_t held = 0;
  /// Bytes that live tensors asked for, and most at once. The categories' peaks may lie at different times, so that
  /// their sum may exceed the peak.
  std::size_t in_use = 0;
  std::size_t peak = 0;
  /// Bytes of page-locked memory of the host (core/pinned.h), for kCPU; not part of the others.
  std::size_t pinned = 0;
  std::array<MemoryUse, kMemoryCategories> categories = {};

  const MemoryUse& operator[](MemoryCategory category) const { return categories[static_cast<std::size_t>(category)]; }
};

/// Of all threads. Memory that tensors only view (Tensor::from_blob) does not count. Throws Error for a device that
/// there is not.
ADJOINT_API MemoryStats memory_stats(Device device = default_device());
/// Peaks begin anew at what is in use.
ADJOINT_API void reset_peak_memory_stats(Device device = default_device());
/// Gives memory that no tensor uses back, a GPU's to the driver, the CPU's and page-locked memory to the system. Waits
/// for the GPUs. Programs need it only beside others that want the memory: an allocation that fails tries it by itself.
ADJOINT_API void empty_cache();

/// Tensors that this thread makes while it lives are of this category; scopes nest, and the innermost counts.
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

/// Counts bytes that are taken (or given back).
ADJOINT_API void count_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept;
ADJOINT_API void uncount_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept;
/// For messages: the categories in use on the device and its largest tensors, "in use: ...; largest tensors: ...".
ADJOINT_API std::string memory_report(Device device);

}  // namespace detail
}  // namespace adjoint
