// Allocations that fail on demand: a program that uses this has its own operator new.
#pragma once

#include <functional>

namespace adjoint::testing {

enum class Failure {
  kOnce,     // one allocation fails, those after it do not
  kForGood,  // all fail from there on, until the call has failed
};

/// Calls act() with this thread's n-th allocation by operator new failing, for n = 1, 2, ..., and after_failure(n) each
/// time that act() has thrown; returns how often that was once act() runs through. An act() that runs through although
/// an allocation failed is a test failure.
int for_each_failing_allocation(Failure failure, const std::function<void()>& act,
                                const std::function<void(int)>& after_failure);

}  // namespace adjoint::testing
