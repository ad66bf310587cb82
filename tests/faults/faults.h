// The trial that every operation stands: each of its allocations fails in turn, and it changes nothing; then it runs
// again, with the bits that it would have had.
#pragma once

#include <adjoint/core/parallel.h>
#include <adjoint/core/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint::testing {

/// Operations, one after the other, on a fresh state of their own.
struct Trial {
  std::vector<std::function<void()>> steps;
  /// What a step that fails must not change, nor the gradients of.
  std::function<std::vector<Tensor>()> state;
  /// What was made; with the state it is compared with an undisturbed run's.
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

/// Fails, naming `name` and the allocation, unless make()'s steps stand the trial, each allocation failing once, and
/// for good until the step is made again. Memory that is lost is found where num_threads() is 1: other threads keep
/// what they have for their next task.
void expect_all_or_nothing(const std::string& name, const std::function<Trial()>& make);

}  // namespace adjoint::testing
