// The copy that puts samples behind positions, on the emulator.
#pragma once

#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/tests/support/emulation/emulator.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/ops/conv/layouts/cuda/samples_last.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace adjoint::testing {

/// `values`, which may begin anywhere, with samples behind positions.
template <class T>
Operand<T> samples_last(const cuda::SamplesLast& how, const std::vector<double>& values, std::uint64_t seed) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  const std::vector<double> nothing(static_cast<std::size_t>(how.numel()), std::numeric_limits<double>::quiet_NaN());
  Operand<T> from(values, seed % 5), to(nothing, 0);
  const auto kernel = cuda::rearranged::samples_last_kernel_of<Bits>(how);
  emulation::run({.grid = {static_cast<unsigned>(how.tiles())},
                  .block = {cuda::rearranged::kSamplesThreads},
                  .seed = seed},
                 [&] { kernel(how, reinterpret_cast<const Bits*>(from.data()), reinterpret_cast<Bits*>(to.data())); });
  EXPECT_TRUE(to.surroundings_are_kept());
  return to;
}

}  // namespace adjoint::testing
