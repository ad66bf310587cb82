// Coefficients of the terms of kernels' times (terms.h), fitted to measured times by scripts/calibrate.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <array>

namespace adjoint::cuda {

struct Calibration {
  double least = 0;  // microseconds, of all that were measured
  std::array<double, kMostTerms> coefficients{};
};

/// Of the kernel of that name in the problem's role and arithmetic; float16's is bfloat16's. Null where none was
/// measured.
const Calibration* find_calibration(const char* kernel, const ConvProblem& problem);

}  // namespace adjoint::cuda
