// Runs the kernels that read a copy in channel blocks on the emulator.
#pragma once

#include <adjoint/tests/ops/conv/correlation/emulated_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/select.cuh>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::testing {

/// Packs `filter` into `blocks`, where `operands` has it, makes the copy of the input, and multiplies on the launch's
/// grid.
template <class M>
void run_blocked(const cuda::CorrelationPlan& plan, const cuda::CorrelationOperands& operands, const void* filter,
                 std::uint32_t* blocks, const emulation::Launch& launch) {
  // Nothing may be left as it was.
  std::vector<uint4> copy(static_cast<std::size_t>(plan.copy().bytes()) / sizeof(uint4),
                          uint4{0x7fc00000, 0x7fc07fc0, 0x7fc00000, 0x7fc07fc0});
  const cuda::blocked::PackGrid grid = cuda::blocked::pack_grid(plan);
  const auto* x = static_cast<const typename M::Element*>(operands.x);
  emulation::run({.grid = {static_cast<unsigned>(grid.blocks)},
                  .block = {cuda::correlation::kPackThreads},
                  .seed = launch.seed,
                  .smem_bytes = static_cast<std::size_t>(cuda::correlation_pack_bytes(plan))},
                 [&] {
                   cuda::blocked::pack_operands_kernel<M::kArithmetic>(plan, grid, filter, blocks, x, copy.data());
                 });
  const auto kernel = cuda::blocked::select_kernel<M::kArithmetic>(plan);
  const cuda::TensorMap map = emulation::encode_tensor_map(cuda::correlation_copy_layout(plan, copy.data()));
  emulation::run(launch, [&] { kernel(plan, map, operands); });
}

}  // namespace adjoint::testing
