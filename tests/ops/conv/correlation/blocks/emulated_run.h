// Runs the kernels that read a copy in channel blocks on the emulator.
#pragma once

#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/select.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace adjoint::testing {

/// Packs `filter` into `blocks`, where `operands` has it, makes the copy of the input, and multiplies on the launch's
/// grid. The copy alone, as where the filter is packed already, is the same.
template <class M>
void run_blocked(const cuda::CorrelationPlan& plan, const cuda::CorrelationOperands& operands, const void* filter,
                 std::uint32_t* blocks, const emulation::Launch& launch) {
  // Nothing may be left as it was.
  const std::vector<uint4> nothing(static_cast<std::size_t>(plan.copy().bytes()) / sizeof(uint4),
                                   uint4{0x7fc00000, 0x7fc07fc0, 0x7fc00000, 0x7fc07fc0});
  const auto pack = [&](const cuda::blocked::PackGrid& grid, const void* from, std::uint32_t* to) {
    std::vector<uint4> copy = nothing;
    const auto* x = static_cast<const typename M::Element*>(operands.x);
    emulation::run({.grid = {static_cast<unsigned>(grid.blocks)},
                    .block = {cuda::correlation::kPackThreads},
                    .seed = launch.seed,
                    .smem_bytes = static_cast<std::size_t>(cuda::correlation_pack_bytes(plan))},
                   [&] { cuda::blocked::pack_operands_kernel<M::kArithmetic>(plan, grid, from, to, x, copy.data()); });
    return copy;
  };
  std::vector<uint4> copy = pack(cuda::blocked::pack_grid(plan), filter, blocks);
  const std::vector<uint4> alone = pack(cuda::blocked::copy_grid(plan), nullptr, nullptr);
  EXPECT_EQ(std::memcmp(copy.data(), alone.data(), copy.size() * sizeof(uint4)), 0);
  const auto kernel = cuda::blocked::select_kernel<M::kArithmetic>(plan);
  const cuda::TensorMap map = emulation::encode_tensor_map(cuda::correlation_copy_layout(plan, copy.data()));
  emulation::run(launch, [&] { kernel(plan, map, operands); });
}

}  // namespace adjoint::testing
