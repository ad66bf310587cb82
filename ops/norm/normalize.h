// The operator behind every normalisation. For operators; programs use norm.h.
#pragma once

#include <adjoint/ops/norm/kernels.h>

namespace adjoint {

struct Normalized {
  Tensor y;
  Tensor statistics;  // not recorded; undefined if they were given
};

/// attr defines the view of x. weight and bias (attr.channels()), residual of x's shape, each of x's dtype or
/// undefined; statistics (attr.statistics(), kStatisticsFields), in the type of the computation, if attr.given.
/// attr.activation may be any. The caller must check all of this.
Normalized normalize(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                     const Tensor& statistics, NormAttr attr);

}  // namespace adjoint
