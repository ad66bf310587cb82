// Products of dense matrices by the kernels of the instruction set in use. One operand is packed into blocks of rows;
// the other goes through panels, a tile a task. How work is cut depends on shapes and on the instruction set, never on
// the number of threads, and each result is summed by one task in a fixed order.
#pragma once

#include <adjoint/core/tensor.h>
#include <adjoint/ops/matmul/cpu/kernels.h>
#include <adjoint/ops/matmul/kernels.h>

#include <cstdint>
#include <vector>

namespace adjoint::cpu {

/// The product's tiles, of panels of so many positions: of about equal size, and enough for any number of threads where
/// there is so much work.
std::vector<ProductTile> product_tiles(const ProductShape& shape, std::int64_t panel);

/// out = a b; T is float or double. The operands are dense and not empty, and not both are transposed.
template <class T>
void dense_product(const MatrixBatch& a, const MatrixBatch& b, Tensor& out);

}  // namespace adjoint::cpu
