// The table that a file compiled for one instruction set exports.
#pragma once

#include <adjoint/ops/matmul/cpu/kernels.h>
#include <adjoint/ops/matmul/cpu/outer_product.h>
#include <adjoint/ops/matmul/cpu/product_tile.h>

namespace adjoint::cpu {
namespace {

template <class T>
constexpr ProductKernels<T> product_kernels_of() {
  return {.lanes = kLanes<T>,
          .panel = kPanel<T>,
          .block = kMaxBlock,
          .panel_vectors = kPanelVectors,
          .matrix_tile = matrix_tile<T>,
          .transpose = transpose<T>,
          .outer_product = outer_product<T>};
}

constexpr KernelTable<ProductKernels> make_product_table() {
  return {product_kernels_of<float>(), product_kernels_of<double>()};
}

}  // namespace
}  // namespace adjoint::cpu
