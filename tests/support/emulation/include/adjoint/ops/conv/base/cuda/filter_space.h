// Memory for a filter in another order on the emulator, in place of ops/conv/base/cuda/filter_space.h: no filter is
// frozen.
#pragma once

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

class FilterSpace {
 public:
  FilterSpace(const ConvProblem& problem, const char* /*order*/, std::int64_t /*part*/, std::size_t nbytes)
      : space_(nbytes, problem.device) {}

  void* data() const { return space_.data(); }
  bool is_filled() const { return false; }
  void fill() {}
  bool is_kept() const { return false; }

 private:
  Workspace space_;
};

}  // namespace adjoint::cuda
