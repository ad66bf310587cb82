// You are at stop 3 of 7 of the README's reading path, an elementwise operator: this loops over any strides.
// ops/elementwise/cpu/map.h comes next.
//
// Loops over several operands of one shape and any strides: axes are sorted and merged first, so a loop over contiguous
// operands of any rank is one row. The plan is plain data, for host and device alike.
#pragma once

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/shape.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace adjoint {

/// Axis 0 is the innermost. Strides are in elements of each operand; extents of 1 are removed.
template <std::size_t N>
struct StridedPlan {
  int rank = 1;
  std::int64_t numel = 0;
  std::int64_t sizes[kMaxRank] = {1};
  std::int64_t strides[N][kMaxRank] = {};

  /// Returns true if every operand runs through memory in order.
  constexpr bool contiguous() const {
    if (rank != 1) return false;
    for (std::size_t n = 0; n < N; ++n) {
      if (strides[n][0] != 1 && sizes[0] > 1) return false;
    }
    return true;
  }
};

/// Operand 0 (usually the result) determines the order of the axes.
template <std::size_t N>
StridedPlan<N> make_strided_plan(const Shape& shape, const std::array<Strides, N>& strides) {
  StridedPlan<N> plan;
  plan.numel = shape.numel();
  plan.rank = 0;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    int at = plan.rank++;
    plan.sizes[at] = shape[axis];
    for (std::size_t n = 0; n < N; ++n) plan.strides[n][at] = strides[n][axis];
    // Insertion by operand 0's stride; equal strides (broadcast results do not occur) keep row-major order.
    for (; at > 0 && std::abs(plan.strides[0][at]) < std::abs(plan.strides[0][at - 1]); --at) {
      std::swap(plan.sizes[at], plan.sizes[at - 1]);
      for (std::size_t n = 0; n < N; ++n) std::swap(plan.strides[n][at], plan.strides[n][at - 1]);
    }
  }
  int merged = 0;
  for (int axis = 1; axis < plan.rank; ++axis) {
    bool follows = true;
    for (std::size_t n = 0; n < N; ++n)
      follows &= plan.strides[n][axis] == plan.strides[n][merged] * plan.sizes[merged];
    if (follows) {
      plan.sizes[merged] *= plan.sizes[axis];
      continue;
    }
    ++merged;
    plan.sizes[merged] = plan.sizes[axis];
    for (std::size_t n = 0; n < N; ++n) plan.strides[n][merged] = plan.strides[n][axis];
  }
  if (plan.rank == 0) {
    plan.sizes[0] = 1;
    for (std::size_t n = 0; n < N; ++n) plan.strides[n][0] = 1;
  }
  plan.rank = merged + 1;
  return plan;
}

/// Elements per parallel task: enough to hide the hand-over, few enough to share out.
inline constexpr std::int64_t kStridedGrain = 32768;

/// Runs row(offsets, length) on every innermost row, in parallel ranges: offsets (N) are in elements; element i of
/// operand n is at offsets[n] + i * plan.strides[n][0]. A single long row is split.
template <std::size_t N, class Row>
void for_each_row(const StridedPlan<N>& plan, Row&& row) {
  if (plan.numel == 0) return;
  if (plan.rank == 1) {
    parallel_ranges(plan.sizes[0], kStridedGrain, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, N> offsets;
      for (std::size_t n = 0; n < N; ++n) offsets[n] = begin * plan.strides[n][0];
      row(offsets, end - begin);
    });
    return;
  }
  const std::int64_t length = plan.sizes[0];
  const std::int64_t rows = plan.numel / length;
  parallel_ranges(rows, std::max<std::int64_t>(1, kStridedGrain / length), [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kMaxRank> index{};
    std::array<std::int64_t, N> offsets{};
    std::int64_t rest = begin;
    for (int axis = 1; axis < plan.rank; ++axis) {
      index[static_cast<std::size_t>(axis)] = rest % plan.sizes[axis];
      rest /= plan.sizes[axis];
      for (std::size_t n = 0; n < N; ++n) offsets[n] += index[static_cast<std::size_t>(axis)] * plan.strides[n][axis];
    }
    for (std::int64_t r = begin; r < end; ++r) {
      row(offsets, length);
      for (int axis = 1; axis < plan.rank; ++axis) {
        std::int64_t& i = index[static_cast<std::size_t>(axis)];
        const bool carry = ++i == plan.sizes[axis];
        for (std::size_t n = 0; n < N; ++n) offsets[n] += plan.strides[n][axis] * (carry ? 1 - plan.sizes[axis] : 1);
        if (!carry) break;
        i = 0;
      }
    }
  });
}

}  // namespace adjoint
