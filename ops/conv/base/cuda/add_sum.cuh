// Adds the sums of tensor cores to totals in ordinary registers, for split float32.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>

namespace adjoint::cuda {

struct AddSum {
  __device__ __forceinline__ float operator()(float total, float sum) const { return total + sum; }
};

/// Adds the last sum of a total, rounding away from zero. Tensor cores round towards zero, so totals are one or two
/// unit roundoffs too small in the mean; this recovers .7 of it. Exact results stay exact; zero may be -0, until a bias
/// is added.
struct AddLastSum {
  __device__ __forceinline__ float operator()(float total, float sum) const {
    return ptx::add_away_from_zero(total, sum);
  }
};

}  // namespace adjoint::cuda
