// What the plain kernels of conv and conv_transpose take. Plain C++, tested without a GPU.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/geometry.h>

namespace adjoint::cuda {

inline constexpr int kPlainThreads = 128;  // of a block, each with a position
inline constexpr int kPlainChannels = 4;   // of the result that a thread computes, where a group has several

/// What conv, or conv_transpose, takes in clocks from start to end. Fitted to short sums: at most four channels in one.
ADJOINT_API double plain_clocks(const ConvGeometry& geometry, bool transposed);
/// Whether it is sure to be quicker than kernels that pack the filter or copy operands first, as far as the shape
/// tells: few products, and several results from each source channel.
ADJOINT_API bool plain_pays(const ConvGeometry& geometry, bool transposed);

}  // namespace adjoint::cuda
