// How what tensor cores have summed is added to totals in ordinary registers, where float32 is split.
#pragma once

#include <adjoint/core/cuda/ptx.cuh>

namespace adjoint::cuda {

struct AddSum {
  __device__ __forceinline__ float operator()(float total, float sum) const { return total + sum; }
};

/// The last sum of a total: away from zero. Tensor cores round towards zero, so that totals are one or two unit
/// roundoffs too small in the mean, of which this gives .7 back. What is exact stays so; zero may be -0, until a bias
/// is added.
struct AddLastSum {
  __device__ __forceinline__ float operator()(float total, float sum) const {
    return ptx::add_away_from_zero(total, sum);
  }
};

}  // namespace adjoint::cuda
