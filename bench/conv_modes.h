// The names of arithmetics in benchmarks and tests of convolution's kernels, and the GPU that these assume if there is
// no GPU.
#pragma once

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <span>
#include <string>

namespace bench {

struct ConvMode {
  const char* name;
  adjoint::DType dtype;
  adjoint::Precision precision;

  adjoint::cuda::Arithmetic arithmetic() const { return adjoint::cuda::arithmetic_of(dtype, precision); }
  /// Returns true if a product is computed as three products of tf32 parts.
  bool splits() const { return adjoint::cuda::is_split(arithmetic()); }
};
inline constexpr ConvMode kConvModes[] = {{"float32", adjoint::kFloat32, adjoint::Precision::kFull},
                                          {"tf32", adjoint::kFloat32, adjoint::Precision::kTF32},
                                          {"bfloat16", adjoint::kBFloat16, adjoint::Precision::kFull},
                                          {"float16", adjoint::kFloat16, adjoint::Precision::kFull}};
/// The arithmetics of bench/results/candidates.tsv; float16 has the same kernels as bfloat16.
inline constexpr std::span<const ConvMode> kMeasuredModes(kConvModes, 3);

/// Throws Error for an unknown name.
inline const ConvMode& mode_named(const std::string& name) {
  for (const ConvMode& mode : kConvModes) {
    if (name == mode.name) return mode;
  }
  throw adjoint::Error("bench: no such arithmetic: " + name);
}

/// Returns a call without bias, in the form in which kernels get it. It has null operands: it serves to choose kernels,
/// not to run them.
inline adjoint::cuda::ConvProblem unplaced_problem(adjoint::cuda::ConvRole role, const adjoint::ConvGeometry& geometry,
                                                   const ConvMode& mode) {
  return {.role = role,
          .geometry = simplified(geometry, false),
          .dtype = mode.dtype,
          .precision = mode.precision,
          .device = 0};
}

/// The properties that the driver reports for an H100 and an H200.
inline constexpr adjoint::cuda::Gpu kHopper{.architecture = 90,
                                            .runs_wgmma = true,
                                            .smem_bytes = 233472,
                                            .smem_bytes_a_block = 232448};

}  // namespace bench
