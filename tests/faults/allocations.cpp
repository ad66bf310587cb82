#include <adjoint/tests/faults/allocations.h>

#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/storage.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ADJOINT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ADJOINT_SANITIZED 1
#endif
#endif
#ifndef ADJOINT_SANITIZED
#define ADJOINT_SANITIZED 0
#endif

namespace {

std::atomic<bool> armed{false}, for_good{false};
std::atomic<std::int64_t> seen{0}, failing{0};
std::atomic<std::int64_t> live{0};
std::atomic<bool> guarding{false};

bool must_fail() {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const std::int64_t number = ++seen;
  return failing > 0 && (number == failing || (for_good && number > failing));
}

void* counted(void* memory) {
  if (memory != nullptr) ++live;
  return memory;
}

void* allocate(std::size_t size) { return must_fail() ? nullptr : counted(std::malloc(size == 0 ? 1 : size)); }

void* allocate(std::size_t size, std::align_val_t alignment) {
  void* memory = nullptr;
  if (must_fail() || posix_memalign(&memory, static_cast<std::size_t>(alignment), size == 0 ? 1 : size) != 0)
    return nullptr;
  return counted(memory);
}

void* or_throw(void* memory) { return memory != nullptr ? memory : throw std::bad_alloc(); }

void release(void* memory) {
  if (memory == nullptr) return;
  --live;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return or_throw(allocate(size)); }
void* operator new[](std::size_t size) { return or_throw(allocate(size)); }
void* operator new(std::size_t size, std::align_val_t alignment) { return or_throw(allocate(size, alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return or_throw(allocate(size, alignment)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

#if !ADJOINT_SANITIZED

extern "C" void __libc_free(void*);  // glibc's own

namespace {

// An allocation followed by a page that must not be touched. In a list, by address.
struct Guarded {
  std::atomic<char*> memory{nullptr};
  char* pages = nullptr;
  std::size_t bytes = 0;
};
Guarded guarded[4096];

void* allocate_guarded(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (size + page - 1) / page * page + page;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  char* const guard = static_cast<char*>(pages) + bytes - page;
  mprotect(guard, page, PROT_NONE);
  static std::atomic_flag busy;
  while (busy.test_and_set()) continue;
  Guarded* free = nullptr;
  for (Guarded& place : guarded) {
    if (place.memory == nullptr) free = &place;
  }
  if (free != nullptr) {
    free->pages = static_cast<char*>(pages);
    free->bytes = bytes;
    free->memory = guard - size;
  }
  busy.clear();
  return free == nullptr ? nullptr : guard - size;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void free(void* memory) noexcept {
  for (Guarded& place : guarded) {
    if (memory != nullptr && place.memory.load(std::memory_order_relaxed) == memory) {
      munmap(place.pages, place.bytes);
      place.memory = nullptr;
      return;
    }
  }
  __libc_free(memory);
}

#endif

extern "C" __attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                                      std::size_t size) noexcept {
  if (must_fail()) return nullptr;
#if !ADJOINT_SANITIZED
  if (guarding) return allocate_guarded(size);
#endif
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

namespace adjoint::testing {

FailAllocation::FailAllocation(std::int64_t n, bool and_all_after, std::int64_t& count) : seen_(count) {
  observe_allocations([](std::size_t, Device device) {
    if (device.is_cuda() && must_fail()) throw OutOfMemoryError("empty: out of memory, as this test wants it");
  });
  seen = 0;
  failing = n;
  for_good = and_all_after;
  armed = true;
}

FailAllocation::~FailAllocation() {
  armed = false;
  observe_allocations(nullptr);
  seen_ += seen;
}

std::int64_t live_allocations() { return live; }

bool can_guard_pages() { return ADJOINT_SANITIZED == 0; }
GuardPages::GuardPages() { guarding = true; }
GuardPages::~GuardPages() { guarding = false; }

}  // namespace adjoint::testing
