// Runs the kernel that puts taps last on the emulator.
#pragma once

#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/sums/cuda/taps.cuh>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace adjoint::testing {

template <class T, class From>
void gather(const cuda::TapGather& g, const From* from, T* to, std::uint64_t seed) {
  const auto kernel = g.vector == 1 ? cuda::tapwise::gather_taps_kernel<T, From, 1>
                                    : cuda::tapwise::gather_taps_kernel<T, From, 16 / sizeof(From)>;
  const bool vectors = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  emulation::run({.grid = {static_cast<unsigned>(cuda::ceil_div(g.count, std::int64_t{g.run}))},
                  .block = {cuda::kGatherThreads},
                  .seed = seed},
                 [&] { kernel(g, from, to, vectors); });
}

}  // namespace adjoint::testing
