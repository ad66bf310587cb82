// core/cuda/wgmma.cuh for emulator.h: the same names. Products are done at the wait that covers them.
#pragma once

#include <adjoint/tests/support/emulation/emulator.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace adjoint::cuda::wgmma {

enum class Operand { kTF32, kBFloat16, kFloat16 };

inline std::uint64_t matrix_descriptor(std::uint32_t shared_address, int k_stride_bytes, int row_stride_bytes = 128) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(k_stride_bytes) >> 4) << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(row_stride_bytes) >> 4) << 32;
}

inline std::uint64_t swizzled_descriptor(std::uint32_t shared_address, int eight_bytes = 1024) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(eight_bytes) >> 4) << 32 | std::uint64_t{1} << 62;
}

enum class Major { kK, kMN };

template <Major kMajor>
std::uint64_t block_descriptor(std::uint32_t shared_address) {
  if (kMajor == Major::kK) return swizzled_descriptor(shared_address);
  return static_cast<std::uint64_t>((shared_address & 0x3ffffU) >> 4) | std::uint64_t{8192 >> 4} << 16 |
         std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}
template <Major kMajor>
inline constexpr int kMajorStep = kMajor == Major::kK ? 2 : 128;

inline std::uint64_t moved(std::uint64_t descriptor, int by) {
  return descriptor >> 32 << 32 | (static_cast<std::uint32_t>(descriptor) + static_cast<std::uint32_t>(by));
}

inline void fence() {}
inline void commit() {
  emulation::Thread& thread = emulation::current();
  thread.product_groups.push_back(std::move(thread.open_products));
  thread.open_products.clear();
}

template <int kPending>
void wait() {
  auto& groups = emulation::current().product_groups;
  while (groups.size() > kPending) {
    emulation::warp_collective(&groups.front(),
                               [rank = emulation::current().rank,
                                warp = static_cast<int>(emulation::current().index.x / 32 % 4)](void* const* lanes) {
                                 const auto of = [&](int lane) -> const auto& {
                                   return *static_cast<const std::vector<emulation::Product>*>(lanes[lane]);
                                 };
                                 for (std::size_t i = 0; i < of(0).size(); ++i) {
                                   const emulation::Product* products[32];
                                   for (int lane = 0; lane < 32; ++lane) {
                                     if (of(lane).size() != of(0).size())
                                       throw std::runtime_error("emulated wgmma: lanes disagree");
                                     products[lane] = &of(lane)[i];
                                   }
                                   emulation::multiply_warp(products, rank, warp);
                                 }
                               });
    groups.erase(groups.begin());
  }
}

template <int kCount, class T>
void pin(T (&)[kCount]) {}

template <Operand kOperand, int kColumns>
void multiply(float* d, const std::uint32_t (&a)[4], std::uint64_t b, int accumulate = 1) {
  emulation::current().open_products.push_back(
      {d, {a[0], a[1], a[2], a[3]}, 0, b, kColumns, static_cast<int>(kOperand), accumulate != 0});
}

}  // namespace adjoint::cuda::wgmma
