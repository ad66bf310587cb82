#include <adjoint/core/memory/memory.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/block_cache.h>
#include <adjoint/core/memory/large_blocks.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/storage.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/backend.h>
#endif

namespace adjoint {
namespace {

constexpr const char* kCategoryNames[kMemoryCategories] = {"other",     "parameters",         "gradients",
                                                           "optimizer", "saved for backward", "workspace"};

struct Count {
  std::atomic<std::size_t> in_use{0}, peak{0};

  void add(std::size_t nbytes) {
    const std::size_t now = in_use.fetch_add(nbytes, std::memory_order_relaxed) + nbytes;
    std::size_t most = peak.load(std::memory_order_relaxed);
    while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  void remove(std::size_t nbytes) { in_use.fetch_sub(nbytes, std::memory_order_relaxed); }
  void reset_peak() { peak.store(in_use.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  MemoryUse read() const { return {in_use.load(std::memory_order_relaxed), peak.load(std::memory_order_relaxed)}; }
};

struct Counts {
  Count all;
  Count categories[kMemoryCategories];
};

// One entry for the CPU, then one per GPU: Device::index is 8 bits wide.
constinit Counts counts[std::size_t{1} + std::numeric_limits<std::int8_t>::max() + 1];

Counts& counts_of(Device device) { return counts[device.is_cpu() ? 0 : 1 + static_cast<std::size_t>(device.index)]; }

static_assert(MemoryCategory{} == MemoryCategory::kOther, "the initial value in a Context");

void check_device(const char* op, Device device) {
  ADJOINT_CHECK(device.is_cpu() || device.index < cuda_device_count(),
                "{}: the device must exist; got {}, with {} CUDA devices available", op, device, cuda_device_count());
}

constexpr std::size_t kToldTensors = 5;

constinit std::mutex large_guard;  // guards the list below
constinit detail::LargeBlock* first_large = nullptr;
const HeldAtFork large_at_fork(large_guard);

}  // namespace

const char* to_string(MemoryCategory category) {
  check_enumerator("to_string", "MemoryCategory", category, MemoryCategory::kWorkspace);
  return kCategoryNames[static_cast<std::size_t>(category)];
}

MemoryScope::MemoryScope(MemoryCategory category) : outer_(detail::context().memory_category) {
  check_enumerator("MemoryScope", "MemoryCategory", category, MemoryCategory::kWorkspace);
  detail::context().memory_category = category;
}
MemoryScope::~MemoryScope() { detail::context().memory_category = outer_; }
MemoryCategory MemoryScope::current() { return detail::context().memory_category; }

void detail::count_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept {
  Counts& of_device = counts_of(device);
  of_device.all.add(nbytes);
  of_device.categories[static_cast<std::size_t>(category)].add(nbytes);
}

void detail::uncount_memory(Device device, MemoryCategory category, std::size_t nbytes) noexcept {
  Counts& of_device = counts_of(device);
  of_device.all.remove(nbytes);
  of_device.categories[static_cast<std::size_t>(category)].remove(nbytes);
}

void detail::recount_memory(Device device, MemoryCategory from, MemoryCategory to, std::size_t nbytes) noexcept {
  Counts& of_device = counts_of(device);
  of_device.categories[static_cast<std::size_t>(from)].remove(nbytes);
  of_device.categories[static_cast<std::size_t>(to)].add(nbytes);
}

MemoryStats memory_stats(Device device) {
  check_device("memory_stats", device);
  const Counts& of_device = counts_of(device);
  const MemoryUse all = of_device.all.read();
  MemoryStats stats{.held = all.in_use, .in_use = all.in_use, .peak = all.peak};
  for (std::size_t c = 0; c < kMemoryCategories; ++c) stats.categories[c] = of_device.categories[c].read();
  if (device.is_cpu()) {
    stats.held += detail::BlockCache::of_tensors().kept_bytes();
    stats.pinned = detail::pinned_bytes_held();
  }
#if defined(ADJOINT_WITH_CUDA)
  if (device.is_cuda()) stats.held = cuda::bytes_held(device.index);
#endif
  return stats;
}

void reset_peak_memory_stats(Device device) {
  check_device("reset_peak_memory_stats", device);
  Counts& of_device = counts_of(device);
  of_device.all.reset_peak();
  for (Count& count : of_device.categories) count.reset_peak();
}

void empty_cache() {
  detail::StepCapture::refuse_waiting("empty_cache");
  detail::BlockCache::of_tensors().empty();
#if defined(ADJOINT_WITH_CUDA)
  cuda::empty_caches();
#endif
}

// ---- The largest tensors.

std::unique_ptr<detail::LargeBlock> detail::LargeBlock::make(const Storage& storage, const TensorSpec* spec) {
  if (storage.nbytes() < kLeastBytes) return nullptr;
  auto block = std::make_unique<LargeBlock>(storage);
  if (spec != nullptr) {
    block->shape_ = spec->shape;
    block->dtype_ = spec->dtype;
    block->has_spec_ = true;
  }
  const std::string_view op = OpScope::op() == nullptr ? "" : OpScope::op();
  op.copy(block->op_, sizeof block->op_ - 1);  // a custom operator's name may be destroyed before the tensor
  return block;
}

void detail::LargeBlock::list() {
  const std::lock_guard lock(large_guard);
  next_ = first_large;
  if (next_ != nullptr) next_->previous_ = this;
  first_large = this;
  listed_ = true;
}

detail::LargeBlock::~LargeBlock() {
  if (!listed_) return;
  const std::lock_guard lock(large_guard);
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ == nullptr ? first_large : previous_->next_) = next_;
}

std::string detail::LargeBlock::describe() const {
  std::string text = has_spec_ ? fmt::format("{} {} of ", shape_, dtype_) : std::string();
  text += fmt::format("{} bytes ({}", storage_.nbytes(), to_string(storage_.category()));
  if (op_[0] != '\0') text += fmt::format(", made by {}", op_);
  return text + ")";
}

std::string detail::memory_report(Device device) {
  std::string text = "in use: ";
  std::string_view separator;
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    const std::size_t in_use = counts_of(device).categories[c].read().in_use;
    if (in_use == 0) continue;
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), kCategoryNames[c], in_use);
  }
  if (separator.empty()) text += "nothing";
  std::vector<const LargeBlock*> blocks;
  const std::lock_guard lock(large_guard);
  for (const LargeBlock* block = first_large; block != nullptr; block = block->next()) {
    if (block->storage().device() == device) blocks.push_back(block);
  }
  const std::size_t told = std::min(blocks.size(), kToldTensors);
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(told), blocks.end(),
                    [](const LargeBlock* a, const LargeBlock* b) {
                      return a->storage().nbytes() > b->storage().nbytes();
                    });
  separator = "; largest tensors: ";
  for (std::size_t i = 0; i < told; ++i) text += std::exchange(separator, ", ").data() + blocks[i]->describe();
  return text;
}

}  // namespace adjoint
