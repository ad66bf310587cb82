// Diagonals and triangles of matrices.
//
// Diagonal `offset` begins at column `offset` of row 0 if it is positive, and at row -offset of column 0 if it is
// negative. Any dtype; differentiable to any order. Throws Error for undefined tensors and for axes that x does not
// have.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {

/// The diagonals of the matrices that `axis1` (rows) and `axis2` (columns) make: x without these axes, with the
/// diagonal's elements along a new last one. A view. Throws Error if the axes are the same.
ADJOINT_API Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);

/// For a vector (n), the square matrix with this diagonal `offset`, and zeros elsewhere; for a matrix, a copy of its
/// diagonal. Throws Error for other numbers of axes.
ADJOINT_API Tensor diag(const Tensor& x, std::int64_t offset = 0);

/// The matrices of the last two axes, with zeros above diagonal `offset` and below it. Throws Error for fewer axes.
ADJOINT_API Tensor tril(const Tensor& x, std::int64_t offset = 0);
ADJOINT_API Tensor triu(const Tensor& x, std::int64_t offset = 0);

}  // namespace adjoint
