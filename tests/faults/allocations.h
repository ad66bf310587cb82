// This program's own operator new and aligned_alloc, which the library uses too: allocations that fail, are counted, or
// end at a page that nobody may touch.
#pragma once

#include <cstdint>

namespace adjoint::testing {

/// While it lives, the n-th allocation of the process after its construction (from 1; 0: no allocation) fails; with
/// `for_good`, all later ones too. Allocations of elements on a CUDA device count too. Adds the number of allocations
/// to `seen`.
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

/// False if a sanitizer manages the memory: it finds writes behind an allocation itself.
bool can_guard_pages();
/// While it lives, memory from aligned_alloc ends at the start of a page that must not be touched.
class GuardPages {
 public:
  GuardPages();
  ~GuardPages();
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;
};

}  // namespace adjoint::testing
