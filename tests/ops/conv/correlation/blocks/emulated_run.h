// Runs the kernels that read a copy in channel blocks on the emulator.
#pragma once

#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/launch.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace adjoint::testing {

/// Launches the kernels. The copy of the input alone, which is made if the filter is already packed, must equal the one
/// made with a filter.
template <class M>
void run_blocked(const cuda::CorrelationPlan& plan, const cuda::CorrelationOperands& operands,
                 const cuda::ConvProblem& problem) {
  const auto* x = static_cast<const typename M::Element*>(operands.x);
  const auto pack = [&](const cuda::blocked::PackGrid& grid, std::uint32_t* blocks, const cuda::Workspace& copy) {
    cuda::launch(cuda::blocked::pack_operands_kernel<M::kArithmetic>,
                 {dim3(static_cast<unsigned>(grid.blocks)), dim3(cuda::correlation::kPackThreads),
                  static_cast<std::size_t>(cuda::correlation_pack_bytes(plan))},
                 0, plan, grid, problem.second, blocks, x, static_cast<uint4*>(copy.data()));
  };
  const cuda::Workspace blocks(static_cast<std::size_t>(4 * plan.filter_units()), 0);
  const cuda::Workspace copy(static_cast<std::size_t>(plan.copy().bytes()), 0), alone(copy.nbytes(), 0);
  pack(cuda::blocked::pack_grid(plan), static_cast<std::uint32_t*>(blocks.data()), copy);
  pack(cuda::blocked::copy_grid(plan), nullptr, alone);
  EXPECT_EQ(std::memcmp(copy.data(), alone.data(), copy.nbytes()), 0);
  cuda::run_blocked<M::kArithmetic>(plan, operands, problem);
}

}  // namespace adjoint::testing
