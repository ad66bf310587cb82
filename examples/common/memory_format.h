// --memory-format: the order of images and filters in memory (core/tensor/memory_format.h), for programs whose networks
// are convolutions of pictures.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/memory_format.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/sequential.h>

#include <cstddef>
#include <string>
#include <vector>

namespace examples {

/// The values of --memory-format: auto, contiguous, channels-last.
const std::vector<std::string>& memory_formats();

/// The format that auto means. `precision` is a value of --precision. In half precision on a GPU of compute
/// capability 9.0 (90) the format is channels_last; otherwise it is contiguous.
adjoint::MemoryFormat automatic_memory_format(int compute_capability, const std::string& precision);
/// The format that a value of --memory-format means on this device.
adjoint::MemoryFormat memory_format_of(const std::string& value, adjoint::Device device, const std::string& precision);

/// Moves `net` to the device and its filters to the format. Returns `net`. Optimisers and DataParallel must be made
/// after this.
template <class M>
M& placed(M& net, adjoint::Device device, adjoint::MemoryFormat format) {
  net.to(device);
  net.to(format);
  return net;
}

/// Returns a batch of images or volumes, of four or five axes, in the format, and other tensors unchanged.
adjoint::Tensor in_format(const adjoint::Tensor& batch, adjoint::MemoryFormat format);

/// Returns channels_last if a parameter of `net` is in it, else contiguous.
adjoint::MemoryFormat format_of(const adjoint::nn::Module& net);

/// Returns `layers` under the same names, with a function behind the first `count` of them that moves its input to
/// format_of(layers). Results follow operands, but pictures of one channel decide no format, and results of Linear are
/// contiguous: the layers behind would compute in contiguous without the function.
adjoint::nn::Sequential in_format_after(std::size_t count, const adjoint::nn::Sequential& layers);

}  // namespace examples
