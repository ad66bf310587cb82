// What the tests of conv's and conv_transpose's emulated tensor-core kernels share: packed filters, and geometries that
// reach every tile.
#pragma once

#include <adjoint/tests/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/cuda/correlation_select.cuh>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::testing {

/// A filter's blocks, made by the kernel that packs them on a GPU.
template <cuda::Arithmetic kArithmetic>
class PackedFilter {
 public:
  PackedFilter(const cuda::CorrelationPlan& plan, const std::vector<double>& filter, std::uint64_t seed)
      : units_(static_cast<std::size_t>(plan.filter_units()) + 4) {
    while (reinterpret_cast<std::uintptr_t>(data()) % 16 != 0) ++begin_;
    Operand<typename cuda::ArithmeticTraits<kArithmetic>::Element> values(filter, 0);
    emulation::run({.grid = cuda::correlation::pack_grid(plan), .block = {32}, .seed = seed},
                   [&] { cuda::correlation::pack_filter_kernel<kArithmetic>(plan, values.data(), data()); });
  }
  std::uint32_t* data() { return units_.data() + begin_; }

 private:
  std::vector<std::uint32_t> units_;
  std::size_t begin_ = 0;
};

/// Between them they use every tile and every way through the kernels.
inline std::vector<ConvCase> every_tile_cases() {
  return {
      {.batch = 1, .in_channels = 20, .out_channels = 9, .input = {1, 700}, .kernel = {1, 3}},
      {.batch = 1, .in_channels = 33, .out_channels = 30, .input = {9, 40}, .kernel = {3, 3}, .padding = {1, 1}},
      {.batch = 1, .in_channels = 36, .out_channels = 61, .input = {1, 500}, .kernel = {1, 5}, .dilation = {1, 3}},
      {.batch = 1, .in_channels = 40, .out_channels = 125, .input = {1, 515}, .kernel = {1, 3}},
      {.batch = 1, .in_channels = 70, .out_channels = 128, .input = {16, 16}, .kernel = {1, 1}},
      {.batch = 2, .in_channels = 64, .out_channels = 128, .input = {8, 8}, .kernel = {2, 2}, .stride = {2, 2}},
      {.batch = 5,
       .in_channels = 40,
       .out_channels = 64,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.batch = 1,
       .in_channels = 20,
       .out_channels = 36,
       .input = {1, 300},
       .kernel = {1, 16},
       .stride = {1, 8},
       .padding = {0, 4}},
      {.batch = 1,
       .in_channels = 24,
       .out_channels = 1,
       .input = {12, 40},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.batch = 1,
       .in_channels = 18,
       .out_channels = 17,
       .input = {12, 20},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {9, 9},
       .dilation = {9, 9}},
  };
}

}  // namespace adjoint::testing
