// This program's own operator new and aligned_alloc, which the library uses too: allocations that fail, are counted, or
// end at a page that nobody may touch.
#pragma once

#include <cstdint>

namespace adjoint::testing {

/// While it lives, the n-th allocation of the process from its making on (from 1; 0: none) fails, `for_good` with all
/// after it. Those of elements on a CUDA device count too. Adds to `seen` how many there were.
class FailAllocation {
 public:
  FailAllocation(std::int64_t n, bool for_good, std::int64_t& seen);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

 private:
  std::int64_t& seen_;
};

/// Allocations that nothing has given back.
std::int64_t live_allocations();

/// False where a sanitizer has the memory: it finds what is written behind an allocation by itself.
bool can_guard_pages();
/// While it lives, what aligned_alloc gives ends where a page begins that must not be touched.
class GuardPages {
 public:
  GuardPages();
  ~GuardPages();
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;
};

}  // namespace adjoint::testing
