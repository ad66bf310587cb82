// The table that a file compiled for one instruction set exports.
#pragma once

#include <adjoint/ops/conv/cpu/gather_tile.h>
#include <adjoint/ops/conv/cpu/kernels.h>
#include <adjoint/ops/conv/cpu/shift_tile.h>
#include <adjoint/ops/conv/cpu/tap_dots.h>

namespace adjoint::cpu {
namespace {

template <class T>
constexpr ConvKernels<T> conv_kernels_of() {
  return {.gather_tile = gather_tile<T>, .shift_tile = shift_tile<T>, .tap_dots = tap_dots<T>};
}

constexpr KernelTable<ConvKernels> make_conv_table() { return {conv_kernels_of<float>(), conv_kernels_of<double>()}; }

}  // namespace
}  // namespace adjoint::cpu
