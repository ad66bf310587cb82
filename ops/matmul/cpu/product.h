// Products of dense matrices by the kernels of the instruction set in use. One operand is packed into blocks of rows;
// the other goes through panels, a tile per task. Shapes and the instruction set determine how work is split, never the
// number of threads, and one task sums each result in a fixed order.
#pragma once

#include <adjoint/core/memory/scratch.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/matmul/cpu/kernels.h>
#include <adjoint/ops/matmul/kernels.h>

#include <cstdint>

namespace adjoint::cpu {

/// The product's tiles, of panels of this many positions. They have about equal size, and large products have enough
/// for any number of threads, together with the other products that run at the same time: `products` with this one.
ScratchVector<ProductTile> product_tiles(const ProductShape& shape, std::int64_t panel, std::int64_t products = 1);

/// out = a b; T is float or double. The operands are dense and not empty, and at most one is transposed.
template <class T>
void dense_product(const MatrixBatch& a, const MatrixBatch& b, Tensor& out);

}  // namespace adjoint::cpu
