// The inner loops of sums of outer products. One operand is transposed to channels-last, so that its channels fill
// vectors; the other is read one scalar per channel. A convolution's tap costs no copy: it only shifts the start of the
// loop. For files that are compiled for one instruction set: see ops/matmul/cpu/micro_kernel.h.
#pragma once

#include <adjoint/ops/matmul/cpu/kernels.h>
#include <adjoint/ops/matmul/cpu/micro_kernel.h>

namespace adjoint::cpu {
namespace {

template <class T>
void transpose(Index channels, Index positions, const T* from, Index channel_step, T* to, Index pitch) {
  constexpr Index kStrip = 8;  // channels whose rows are read in parallel
  for (Index c = 0; c < pitch; c += kStrip) {
    const Index last = minimum(c + kStrip, pitch), present = minimum(last, channels);
    for (Index p = 0; p < positions; ++p) {
      T* row = to + p * pitch;
      Index i = c;
      for (; i < present; ++i) row[i] = from[i * channel_step + p];
      for (; i < last; ++i) row[i] = T{};
    }
  }
}

template <class T, int vectors, int lanes>
void accumulate(const OuterProduct& product, const T* vector_operand, const T* scalar_operand, T* result, Index pitch) {
  Vector<T> sums[lanes][vectors] = {};
  const Index vector_step = product.vector_step[3], scalar_step = product.scalar_step[3], lane_step = product.lane_step;
  for (Index n = 0; n < product.extent[0]; ++n) {
    for (Index d = 0; d < product.extent[1]; ++d) {
      for (Index h = 0; h < product.extent[2]; ++h) {
        const T* a =
            vector_operand + n * product.vector_step[0] + d * product.vector_step[1] + h * product.vector_step[2];
        const T* b =
            scalar_operand + n * product.scalar_step[0] + d * product.scalar_step[1] + h * product.scalar_step[2];
        for (Index w = 0; w < product.extent[3]; ++w) {
          Vector<T> left[vectors];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) left[v] = load(a + v * kLanes<T>);
#pragma GCC unroll 8
          for (int j = 0; j < lanes; ++j) {
            const T right = b[j * lane_step];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sums[j][v] += left[v] * right;
          }
          a += vector_step;
          b += scalar_step;
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < lanes; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      T* to = result + j * pitch + v * kLanes<T>;
      store(to, load(to) + sums[j][v]);
    }
  }
}

template <class T, int vectors, int lanes>
void accumulate_lanes(int wanted, const OuterProduct& product, const T* vector_operand, const T* scalar_operand,
                      T* result, Index pitch) {
  if constexpr (lanes > 1) {
    if (wanted < lanes) {
      return accumulate_lanes<T, vectors, lanes - 1>(wanted, product, vector_operand, scalar_operand, result, pitch);
    }
  }
  accumulate<T, vectors, lanes>(product, vector_operand, scalar_operand, result, pitch);
}

template <class T, int vectors>
void accumulate_lone(int wanted, const OuterProduct& product, const T* vector_operand, const T* scalar_operand,
                     T* result) {
  if constexpr (vectors > 1) {
    if (wanted < vectors)
      return accumulate_lone<T, vectors - 1>(wanted, product, vector_operand, scalar_operand, result);
  }
  accumulate<T, vectors, 1>(product, vector_operand, scalar_operand, result, 0);
}

template <class T>
void outer_product(const OuterProduct& product, int vectors, int lanes, const T* vector_operand,
                   const T* scalar_operand, T* result, Index pitch) {
  if (lanes == 1) return accumulate_lone<T, kMostLoneVectors>(vectors, product, vector_operand, scalar_operand, result);
  switch (vectors) {
    case 1: return accumulate_lanes<T, 1, kMaxBlock>(lanes, product, vector_operand, scalar_operand, result, pitch);
    case 2: return accumulate_lanes<T, 2, kMaxBlock>(lanes, product, vector_operand, scalar_operand, result, pitch);
    default: return accumulate_lanes<T, 3, kMaxBlock>(lanes, product, vector_operand, scalar_operand, result, pitch);
  }
}

}  // namespace
}  // namespace adjoint::cpu
