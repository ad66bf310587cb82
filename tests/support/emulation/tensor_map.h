// Tensor maps of the emulated copy engine: they hold the layout itself.
#pragma once

#include <adjoint/core/cuda/tensor_map.h>

#include <cstdint>
#include <vector>

namespace adjoint::emulation {

cuda::TensorMap encode_tensor_map(const cuda::TensorMapLayout& layout);
cuda::TensorMapLayout decode_tensor_map(const cuda::TensorMap& map);

/// Copies the box that begins at `first` to address `to` of a block's shared memory, with zeros outside the tensor;
/// returns its bytes.
int load_box(unsigned char* shared, std::uint32_t to, const cuda::TensorMapLayout& layout,
             const std::vector<int>& first);
/// The reverse, except for elements outside.
void store_box(const unsigned char* shared, std::uint32_t from, const cuda::TensorMapLayout& layout,
               const std::vector<int>& first);

}  // namespace adjoint::emulation
