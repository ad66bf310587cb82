// Lets tests pretend that a GPU is smaller.
#pragma once

#include <adjoint/core/export.h>

namespace adjoint::cuda {

/// While it lives, kernels that this thread launches size their grids for at most `count` multiprocessors. For tests:
/// results must not depend on the grid.
class ADJOINT_API LimitMultiprocessors {
 public:
  explicit LimitMultiprocessors(int count);
  ~LimitMultiprocessors();
  LimitMultiprocessors(const LimitMultiprocessors&) = delete;
  LimitMultiprocessors& operator=(const LimitMultiprocessors&) = delete;

 private:
  int before_;
};

}  // namespace adjoint::cuda
