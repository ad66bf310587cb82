// Normalisations in ONNX. Internal to ops/norm.
#pragma once

#include <adjoint/ops/norm/norm.h>
#include <adjoint/ops/norm/normalize.h>

#include <cstddef>
#include <functional>

namespace adjoint {

struct TracedNorm {
  const char* op;
  const Tensor &x, &weight, &bias;
  const Tensor &running_mean, &running_var;  // used if statistics are given
  const NormFusion& behind;
  std::size_t last_axes;  // the axes that are normalised; 0: those behind the channels
};

/// normalize() under a trace: one of ONNX's normalisations, or a formula, and then the residual and the activation.
/// compute(affine) returns y without residual and activation, and unless `affine` without weight and bias.
Normalized normalize_traced(const TracedNorm& c, const NormAttr& attr,
                            const std::function<Normalized(bool affine)>& compute);

}  // namespace adjoint
