#include <adjoint/tests/support/failing_new.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>

namespace {

// Allocations of this thread until one fails; below 0: none does.
constinit thread_local int remaining = -1;
constinit thread_local bool for_good = false;
constinit thread_local bool failed = false;

bool fails() {
  if (remaining < 0 || --remaining > 0) return false;
  remaining = for_good ? 1 : -1;
  failed = true;
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) {
  void* data = nullptr;
  if (fails() || posix_memalign(&data, alignment, size == 0 ? 1 : size) != 0) throw std::bad_alloc();
  return data;
}

}  // namespace

// All forms, because any left to a sanitizer would not match these. Callers with std::nothrow can handle failure: such
// requests do not count.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { std::free(data); }

namespace adjoint::testing {

int for_each_failing_allocation(Failure failure, const std::function<void()>& act,
                                const std::function<void(int)>& after_failure) {
  for (int n = 1;; ++n) {
    failed = false;
    for_good = failure == Failure::kForGood;
    remaining = n;
    bool threw = false;
    try {
      act();
    } catch (const std::exception&) {
      threw = true;
    }
    remaining = -1;
    if (!threw) {
      EXPECT_FALSE(failed) << "allocation " << n << " failed and nobody said so";
      return n - 1;
    }
    after_failure(n);
    if (::testing::Test::HasFatalFailure()) return n;
  }
}

}  // namespace adjoint::testing
