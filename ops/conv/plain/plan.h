// How the plain kernels of conv and conv_transpose are cut.
#pragma once

namespace adjoint::cuda {

inline constexpr int kPlainThreads = 128;  // of a block, each with a position
inline constexpr int kPlainChannels = 4;   // of the result that a thread computes, where a group has several

}  // namespace adjoint::cuda
