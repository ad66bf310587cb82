// The table that a file compiled for one instruction set exports.
#pragma once

#include <adjoint/ops/conv/cpu/gather_tile.h>
#include <adjoint/ops/conv/cpu/kernels.h>
#include <adjoint/ops/conv/cpu/outer_product.h>
#include <adjoint/ops/conv/cpu/shift_tile.h>
#include <adjoint/ops/conv/cpu/tap_dots.h>

namespace adjoint::cpu {
namespace {

template <class T>
constexpr Kernels<T> kernel_table() {
  return {.lanes = kLanes<T>,
          .panel = kPanel<T>,
          .block = kMaxBlock,
          .panel_vectors = kPanelVectors,
          .gather_tile = gather_tile<T>,
          .shift_tile = shift_tile<T>,
          .transpose = transpose<T>,
          .outer_product = outer_product<T>,
          .tap_dots = tap_dots<T>};
}

}  // namespace
}  // namespace adjoint::cpu
