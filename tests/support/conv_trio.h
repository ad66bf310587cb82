// All three operators on one problem, and their comparison with the oracle or with another run.
#pragma once

#include <adjoint/tests/support/conv_problem.h>

#include <string>
#include <vector>

namespace adjoint::testing {

struct TrioTensors {
  Tensor conv, conv_transpose, conv_weight;
};
struct TrioValues {
  std::vector<double> conv, conv_transpose, conv_weight;
};

/// conv and conv_transpose with the problem's biases.
TrioTensors run_trio(const ConvProblem& problem, const TensorOptions& options);
#ifdef ADJOINT_WITH_CUDA
/// The same by the kernel of each role whose name begins with `kernel`; flat. Fails if no kernel supports its problem.
TrioTensors run_trio_on(const char* kernel, const ConvProblem& problem, DType dtype);
#endif
/// The oracle's results for the same problem.
TrioValues oracle_trio(const ConvProblem& problem);
TrioValues values_of(const TrioTensors& tensors);

/// expect_values() and expect_same_bits() of each.
void expect_trio_values(const TrioTensors& actual, const TrioValues& expected);
void expect_same_trio(const std::string& what, const TrioTensors& actual, const TrioTensors& expected);

}  // namespace adjoint::testing
