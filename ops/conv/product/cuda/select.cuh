// Selects the kernel for products of matrices, its grid and its operands.
#pragma once

#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/rows_aligned.h>
#include <adjoint/ops/conv/product/cuda/kernel.cuh>
#include <adjoint/ops/conv/product/cuda/positions_kernel.cuh>

#include <algorithm>
#include <cstdint>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
auto product_kernel_of(const ProductPlan& plan) {
  using enum wgmma::Major;
  if constexpr (!ArithmeticTraits<kArithmetic>::kHalf) {
    if (!plan.columns_from_registers) return product::product_kernel<kArithmetic, kK, kK>;
    return plan.tile_column_blocks == 8 ? product::product_positions_kernel<float, 2>
                                        : product::product_positions_kernel<float, 1>;
  } else {
    if (!plan.rows_by_depth) return product::product_kernel<kArithmetic, kMN, kMN>;
    return plan.columns_by_depth ? product::product_kernel<kArithmetic, kK, kK>
                                 : product::product_kernel<kArithmetic, kK, kMN>;
  }
}

/// If rows stay, a block's tiles belong to one unit.
inline std::int32_t product_blocks(const ProductPlan& plan, int multiprocessors) {
  if (!plan.rows_stay) return std::min(plan.tiles(), multiprocessors);
  return std::min(plan.tiles(), std::max(multiprocessors / plan.units(), 1) * plan.units());
}

template <class T, class Encode>
product::Operands<T> product_operands(const ProductPlan& plan, const ConvProblem& problem, const void* rows,
                                      const void* columns, float* partial, const Encode& encode) {
  product::Operands<T> operands{.rows = encode(product_layout(plan.rows, rows, problem.dtype)),
                                .columns =
                                    encode(product_layout(plan.columns, columns, problem.dtype, plan.column_block)),
                                .result = {},
                                .bias = partial != nullptr ? nullptr : static_cast<const T*>(problem.bias),
                                .out = static_cast<T*>(problem.out),
                                .linear = static_cast<T*>(problem.linear),
                                .partial = partial,
                                .activate = Activate<float>(problem.activation)};
  const bool plain = problem.linear == nullptr && operands.activate.is_none() && partial == nullptr;
  operands.stores_boxes =
      plain && !problem.read_again && sizeof(T) == 2 && product_is_aligned(plan.result, sizeof(T), problem.out);
  if (operands.stores_boxes) operands.result = encode(product_layout(plan.result, problem.out, problem.dtype));
  const auto wide = [&](const void* results) {
    constexpr std::int64_t kBytes = sizeof(T);
    return results == nullptr || rows_aligned(results, plan.result.width * kBytes, 4 * kBytes);
  };
  operands.stores_vectors = partial != nullptr ? plan.result.width % 4 == 0 : wide(problem.out) && wide(problem.linear);
  return operands;
}

}  // namespace adjoint::cuda
