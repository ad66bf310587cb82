#include <adjoint/ops/conv/choose/cuda/calibration.h>

#include <adjoint/ops/conv/base/cuda/arithmetic.h>

#include <string_view>

namespace adjoint::cuda {
namespace {

/// For TF32, half precision and float32; one without coefficients was not measured.
using OfArithmetics = std::array<Calibration, 3>;

struct Row {
  std::string_view kernel;
  ConvRole role;
  OfArithmetics calibrations;
};

constexpr Row kRows[] = {
#include <adjoint/ops/conv/choose/cuda/calibration.inc>
};

std::size_t index_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kTF32: return 0;
    case Arithmetic::kBFloat16:
    case Arithmetic::kFloat16: return 1;
    case Arithmetic::kFloat32: break;
  }
  return 2;
}

}  // namespace

const Calibration* find_calibration(const char* kernel, const ConvProblem& problem) {
  for (const Row& row : kRows) {
    if (row.role != problem.role || row.kernel != kernel) continue;
    const Calibration& of_arithmetic = row.calibrations[index_of(arithmetic_of(problem))];
    return of_arithmetic.least > 0 ? &of_arithmetic : nullptr;
  }
  return nullptr;
}

}  // namespace adjoint::cuda
