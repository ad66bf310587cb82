// For tests that need a GPU: one CUDA kernel of the trio at a time, on operands anywhere in memory, into outputs that
// hold NaN beforehand, inside and around.
#pragma once

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/weight/plan.h>
#include <adjoint/tests/support/conv_cases.h>
#include <adjoint/tests/support/conv_mode.h>

#include <cstdint>
#include <functional>
#include <string>

namespace adjoint::testing {

using cuda::kConvRoles;

/// Elements of the result, of the operands, and of the bias (0: no bias).
struct ConvSizes {
  std::int64_t first, second, bias, out;
};
ConvSizes conv_sizes(cuda::ConvRole role, const ConvGeometry& g);

/// A geometry of at most three million multiply-adds from a seed; every attribute has small and large values.
ConvCase random_conv_case(std::uint64_t seed);

/// Operands of one call. Each is flat, on the GPU, and begins anywhere.
struct ConvOperands {
  Tensor first, second, bias;  // bias may be undefined
};
/// Integers up to `first_magnitude` and `second_magnitude`, biases up to 3, at addresses that the seed chooses: they
/// are views of shared memory.
ConvOperands integer_operands(cuda::ConvRole role, const ConvGeometry& g, DType dtype, std::int64_t first_magnitude,
                              std::int64_t second_magnitude, std::uint64_t seed);
/// The same with reals in [-1, 1).
ConvOperands real_operands(cuda::ConvRole role, const ConvGeometry& g, DType dtype, std::uint64_t seed);

/// `tensor` on the GPU, `offset` elements into an allocation; undefined if it is.
Tensor displaced(const Tensor& tensor, std::int64_t offset);

/// The call without its result.
cuda::ConvProblem conv_problem(cuda::ConvRole role, const ConvGeometry& g, const ConvMode& mode,
                               const ConvOperands& operands, const cuda::Machine& machine = {});

/// The result of `kernel` for the problem: a flat tensor. No kernel runs for an empty one, as for operators.
Tensor run_kernel(const cuda::ConvKernel& kernel, cuda::ConvProblem problem);

inline constexpr std::int64_t kGuard = 64;  // elements on either side of a result

/// A function that runs a problem: a kernel's, or one that calls a kernel with the test's own plan.
using RunConv = std::function<void(const cuda::ConvProblem&)>;
/// Runs into memory that holds NaN, `offset` elements past a multiple of 256 bytes. The result, on the
/// device, has kGuard elements before and after it.
Tensor run_guarded(const RunConv& run, cuda::ConvProblem problem, std::int64_t offset);
Tensor run_guarded(const cuda::ConvKernel& kernel, const cuda::ConvProblem& problem, std::int64_t offset);
/// boxes_conv_weight with that tile, which a planner would choose only for large problems; null if the tile, or the
/// kernel, does not support the problem.
RunConv boxes_in_tile(const cuda::ConvProblem& problem, cuda::WeightTile tile);
/// Fails unless two such results are equal, including their surroundings.
void expect_same_guarded(const std::string& what, const Tensor& actual, const Tensor& expected);

/// Compute capability, 90 for 9.0.
int compute_capability();

}  // namespace adjoint::testing
#endif
