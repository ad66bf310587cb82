// Multiprocessors that a thread's kernels leave to others.
#pragma once

#include <adjoint/core/base/export.h>

namespace adjoint::cuda {

/// While it lives, kernels that this thread launches size their grids for at most `count` multiprocessors, so that
/// concurrent work has the others: a kernel whose tiles fill all of them once would take twice as long if some are
/// taken. Results of Adjoint's kernels do not depend on the grid; cuBLAS may choose another algorithm.
class ADJOINT_API LimitMultiprocessors {
 public:
  explicit LimitMultiprocessors(int count);
  ~LimitMultiprocessors();
  LimitMultiprocessors(const LimitMultiprocessors&) = delete;
  LimitMultiprocessors& operator=(const LimitMultiprocessors&) = delete;

  /// Returns true if one lives in this thread.
  static bool is_active();

 private:
  int before_;
};

}  // namespace adjoint::cuda
