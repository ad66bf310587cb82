// The trial of every operation: each of its allocations fails in turn, and it changes nothing; then it runs again, with
// the bits that it would have had.
#pragma once

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint::testing {

/// Operations, one after the other, each on a fresh state.
struct Trial {
  std::vector<std::function<void()>> steps;
  /// The tensors that, with their gradients, a failing step must not change.
  std::function<std::vector<Tensor>()> state;
  /// The results; with the state they are compared with an undisturbed run's.
  std::function<std::vector<Tensor>()> results;
};

/// So many threads while it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Fails, naming `name` and the allocation, unless make()'s steps survive the trial, with each allocation failing once,
/// and failing until the step is made again. Leaks are found only if num_threads() is 1: other threads keep memory for
/// their next task.
void expect_all_or_nothing(const std::string& name, const std::function<Trial()>& make);

}  // namespace adjoint::testing
