// What benchmarks of convolution's kernels ask for by name: arithmetics, operators, and the GPU that those without one
// choose for.
#pragma once

#include "layers.h"

#include <adjoint/core/dtype.h>
#include <adjoint/core/error.h>
#include <adjoint/core/precision.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <cstdint>
#include <span>
#include <string>

namespace bench {

struct Arithmetic {
  const char* name;
  adjoint::DType dtype;
  adjoint::Precision precision;
};
inline constexpr Arithmetic kArithmetics[] = {
    {"tf32", adjoint::kFloat32, adjoint::Precision::kTF32},
    {"bfloat16", adjoint::kBFloat16, adjoint::Precision::kFull},
    {"float32", adjoint::kFloat32, adjoint::Precision::kFull},
    {"float16", adjoint::kFloat16, adjoint::Precision::kFull},
};
/// Those of bench/results/candidates.tsv: float16's kernels are bfloat16's.
inline constexpr std::span<const Arithmetic> kMeasuredArithmetics(kArithmetics, 3);

/// Throws Error where there is none.
inline const Arithmetic& arithmetic_named(const std::string& name) {
  for (const Arithmetic& arithmetic : kArithmetics) {
    if (name == arithmetic.name) return arithmetic;
  }
  throw adjoint::Error("bench: no such arithmetic: " + name);
}

struct Operator {
  const char* name;
  adjoint::cuda::ConvRole role;
};
inline constexpr Operator kOperators[] = {{"conv", adjoint::cuda::ConvRole::kFeature},
                                          {"conv_transpose", adjoint::cuda::ConvRole::kImage},
                                          {"conv_weight", adjoint::cuda::ConvRole::kFilter}};

/// A call without bias whose operands lie nowhere: kernels are chosen for it, none is run.
inline adjoint::cuda::ConvProblem unplaced_problem(const Layer& layer, std::int64_t batch, const Arithmetic& arithmetic,
                                                   const Operator& op) {
  return {.role = op.role,
          .geometry = simplified(layer.with_batch(batch), false),
          .dtype = arithmetic.dtype,
          .precision = arithmetic.precision,
          .device = 0};
}

/// What the driver says of an H100 and an H200.
inline constexpr adjoint::cuda::Gpu kHopper{.architecture = 90,
                                            .runs_wgmma = true,
                                            .smem_bytes = 233472,
                                            .smem_bytes_a_block = 232448};

}  // namespace bench
