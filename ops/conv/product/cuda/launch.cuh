// Launches the kernel for products of matrices. Each arithmetic is one translation unit.
#pragma once

#include <adjoint/core/cuda/launch_early.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/cuda/select.cuh>

#include <cstddef>

namespace adjoint::cuda {

template <Arithmetic kArithmetic>
void run_product_in(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                    float* partial) {
  using T = typename ArithmeticTraits<kArithmetic>::Element;
  const auto kernel = product_kernel_of<kArithmetic>(plan);
  const DeviceGuard guard(problem.device);
  const auto smem_bytes = static_cast<std::size_t>(plan.smem_bytes());
  allow_smem(kernel, smem_bytes);
  const auto blocks = static_cast<unsigned>(product_blocks(plan, multiprocessor_count(problem.device)));
  launch_early(kernel, {dim3(blocks), dim3(kProductThreads), smem_bytes}, 1, problem.device, plan,
               product_operands<T>(plan, problem, rows, columns, partial, encode_tensor_map));
}

}  // namespace adjoint::cuda
