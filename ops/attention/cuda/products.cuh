// Fused attention's two products of a warpgroup, 64 rows. A thread's scores are wgmma's sums: with g = lane / 4 and t =
// lane % 4, scores[4 j + e] is row g + 8 (e / 2) of the warp's 16, column 8 j + 2 t + e % 2.
#pragma once

#include <adjoint/ops/attention/cuda/form.h>
#include <adjoint/core/cuda/mma.cuh>
#include <adjoint/core/cuda/ptx.cuh>
#include <adjoint/core/cuda/ptx_numbers.cuh>
#include <adjoint/core/cuda/wgmma_rows.cuh>
#include <adjoint/core/cuda/wgmma_shared.cuh>
#include <adjoint/ops/conv/base/cuda/wgmma_operand.cuh>

#include <cstdint>

namespace adjoint::cuda::attention {

/// Starts scores = kept rows * moving rows^T, both [line][row] in shared memory.
template <class F>
__device__ __forceinline__ void multiply_scores(float (&scores)[F::kColumns / 2], std::uint32_t kept,
                                                std::uint32_t moving) {
  constexpr int kSteps = 4, kStepUnits = 2;  // of 32 bytes
  const std::uint64_t a = wgmma::swizzled_descriptor(kept), b = wgmma::swizzled_descriptor(moving);
#pragma unroll
  for (int line = 0; line < F::kLines; ++line) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      wgmma::multiply_shared<kWgmmaOperand<F::kArithmetic>, F::kColumns>(
          scores, wgmma::moved(a, line * (kTeamRows * kLineBytes / 16) + step * kStepUnits),
          wgmma::moved(b, line * (F::kColumns * kLineBytes / 16) + step * kStepUnits), line + step > 0 ? 1 : 0);
    }
  }
}

/// The scores as the left operand of the second product, whose summed axis are the columns.
template <class F>
struct Weights {
  static constexpr int kColumnsAProduct = F::kHalf ? 16 : 8;
  static constexpr int kProducts = F::kColumns / kColumnsAProduct;
  std::uint32_t units[kProducts][4];

  /// TF32: unit t is column 2 t of eight, and unit t + 4 column 2 t + 1, so that a thread keeps its scores.
  __device__ __forceinline__ void set(const float (&scores)[F::kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      if constexpr (F::kHalf) {
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const float first = scores[8 * i + 2 * u], second = scores[8 * i + 2 * u + 1];
          units[i][u] =
              F::kArithmetic == Arithmetic::kBFloat16 ? ptx::pack_bf16(first, second) : ptx::pack_f16(first, second);
        }
      } else {
        constexpr int kOf[4] = {0, 2, 1, 3};
#pragma unroll
        for (int u = 0; u < 4; ++u) units[i][u] = ptx::round_to_tf32(scores[4 * i + kOf[u]]);
      }
    }
  }
  __device__ __forceinline__ void pin() {
    if constexpr (F::kHalf) {
#pragma unroll
      for (int i = 0; i < kProducts; ++i) wgmma::pin(units[i]);
    }
  }
};

/// Sums of the second product, 64 rows of kHead columns. TF32's columns are not wgmma's, see add().
template <class F>
struct Sums {
  float values[F::kHead / 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& value : values) value = 0.0F;
  }

  /// Adds weights * moving rows, of which halves are multiplied asynchronously. TF32 operands that are contiguous along
  /// the other axis than the summed one have no wgmma. There a thread loads four neighbouring columns 32 c + 4 g + i of
  /// a row, for products i of line c; its sums are columns 32 c + 8 t + i and 32 c + 8 t + 4 + i.
  __device__ __forceinline__ void add(Weights<F>& weights, std::uint32_t moving, int lane) {
    if constexpr (F::kHalf) {
      const std::uint64_t b = wgmma::rows_descriptor<F::kColumns>(moving);
#pragma unroll
      for (int i = 0; i < Weights<F>::kProducts; ++i) {
        wgmma::multiply_rows<kWgmmaOperand<F::kArithmetic>, F::kHead>(
            values, weights.units[i], wgmma::moved(b, i * wgmma::kMajorStep<wgmma::Major::kMN>));
      }
    } else {
      const int g = lane / 4, t = lane % 4;
#pragma unroll
      for (int i = 0; i < Weights<F>::kProducts; ++i) {
        std::uint32_t rows[2];  // of this thread's two columns of scores
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int row = 2 * t + r;
          rows[r] = moving + (8 * i + row) * kLineBytes + ((g ^ row) * 16);
        }
#pragma unroll
        for (int line = 0; line < F::kLines; ++line) {
          std::uint32_t b[2][4];
#pragma unroll
          for (int r = 0; r < 2; ++r) ptx::load_shared_quad(b[r], rows[r] + line * F::kColumns * kLineBytes);
#pragma unroll
          for (int of = 0; of < 4; ++of) {
            float(&sums)[4] = *reinterpret_cast<float(*)[4]>(values + 4 * (4 * line + of));
            mma::multiply_tf32(sums, weights.units[i], {b[0][of], b[1][of]});
          }
        }
      }
    }
  }

  /// Stores rows below `rows` of the warp's 16, and columns below `extent`, times factors[0] for row g and factors[1]
  /// for row g + 8. `to`: the warp's first row.
  template <class T>
  __device__ __forceinline__ void store(T* to, int rows, int extent, const float (&factors)[2], int lane) const {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = g + 8 * r;
      if (row >= rows) continue;
      T* const line = to + static_cast<std::int64_t>(row) * extent;
      const float factor = factors[r];
      if constexpr (F::kHalf) {
#pragma unroll
        for (int j = 0; j < F::kHead / 8; ++j) {
          const float first = values[4 * j + 2 * r] * factor, second = values[4 * j + 2 * r + 1] * factor;
          if (8 * j < extent) {
            reinterpret_cast<std::uint32_t*>(line)[4 * j + t] =
                F::kArithmetic == Arithmetic::kBFloat16 ? ptx::pack_bf16(first, second) : ptx::pack_f16(first, second);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < F::kHead / 16; ++j) {  // four columns, of the thread's eight of a line
          const float* const sums = values + 16 * (j / 2) + 2 * r + j % 2;
          const int column = 32 * (j / 2) + 8 * t + 4 * (j % 2);
          if (column < extent) {
            *reinterpret_cast<float4*>(line + column) =
                make_float4(sums[0] * factor, sums[4] * factor, sums[8] * factor, sums[12] * factor);
          }
        }
      }
    }
  }
};

}  // namespace adjoint::cuda::attention
