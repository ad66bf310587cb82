// Coefficients of the terms of kernels' times (terms.h), fitted to measured times by scripts/calibrate.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <array>

namespace adjoint::cuda {

struct Calibration {
  double least = 0;  // microseconds, the least of all measured times
  std::array<double, kMostTerms> coefficients{};
};

/// For the kernel with that name in the problem's role and arithmetic; float16 uses bfloat16's. Null if it was not
/// measured.
const Calibration* find_calibration(const char* kernel, const ConvProblem& problem);

}  // namespace adjoint::cuda
