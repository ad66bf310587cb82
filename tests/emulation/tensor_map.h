// Tensor maps of the emulated copy engine: they hold the layout itself.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>

#include <vector>

namespace adjoint::emulation {

cuda::TensorMap encode_tensor_map(const cuda::TensorMapLayout& layout);
cuda::TensorMapLayout decode_tensor_map(const cuda::TensorMap& map);

/// Copies the box that begins at `first`, zeros for what lies outside; returns its bytes.
int copy_box(unsigned char* to, const cuda::TensorMapLayout& layout, const std::vector<int>& first);

}  // namespace adjoint::emulation
