// The arithmetic of a problem for the tensor-core kernels.
#pragma once

#include <adjoint/ops/conv/base/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/rows_aligned.h>

#include <cstdint>

namespace adjoint::cuda {

/// For a problem in float32, bfloat16 or float16.
inline Arithmetic arithmetic_of(const ConvProblem& problem) { return arithmetic_of(problem.dtype, problem.precision); }

/// Returns true if each product is three products of tf32 parts.
inline bool is_split(const ConvProblem& problem) { return is_split(arithmetic_of(problem)); }

/// The number of elements of `size` bytes that one access can read from rows of `row` elements starting at `pointer`:
/// 16 bytes' worth, two, or one.
inline std::int32_t row_vector(const void* pointer, std::int64_t row, std::int64_t size) {
  if (rows_aligned(pointer, row * size, 16)) return static_cast<std::int32_t>(16 / size);
  return rows_aligned(pointer, row * size, 2 * size) ? 2 : 1;
}

}  // namespace adjoint::cuda
