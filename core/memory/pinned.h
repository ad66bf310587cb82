// Page-locked ('pinned') memory of the host, which a GPU copies to and from in the background while the host continues.
// Loaders prefetch into it:
//
//   Tensor batch = empty_pinned({64, 3, 224, 224});   // filled by a worker
//   const StreamGuard guard(copies);                  // a stream of the copies' own
//   Tensor on_gpu = to_async(batch, kCUDA);           // returns at once
//   ...
//   Stream::current().wait(copies);                   // before on_gpu is used on another stream
//
// The memory of a destroyed pinned tensor is kept for the next one, and handed out again only when the copies that use
// it are done. Without a GPU all this is ordinary memory and ordinary copies, so programs need no branch.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/shape.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>

namespace adjoint {

/// An uninitialised contiguous CPU tensor in page-locked memory. Throws as Tensor::empty does.
ADJOINT_API Tensor empty_pinned(const Shape& shape, DType dtype = kFloat32);
/// The elements of a CPU tensor, contiguous in page-locked memory, or the tensor itself if it is so already. Not
/// recorded. Throws Error for a tensor on another device.
ADJOINT_API Tensor pin_memory(const Tensor& x);
/// Returns true if a tensor's memory is page-locked; false on every device but the CPU, and without a GPU.
ADJOINT_API bool is_pinned(const Tensor& x);

/// target.copy_(source), in the order of the GPU's current stream. It does not wait if one of them is a pinned CPU
/// tensor, the other is on a GPU, and both are contiguous and of one shape and dtype; other copies use copy_. Before
/// the stream is done (Stream::synchronize), do not write to the CPU tensor, and do not read it if it is the target.
/// Not recorded; throws Error as copy_ does.
ADJOINT_API void copy_async(const Tensor& source, Tensor& target);
/// A tensor on `device` that copy_async() fills; x itself if it is already there. Not recorded.
ADJOINT_API Tensor to_async(const Tensor& x, Device device);

namespace detail {

/// Page-locked bytes that the process holds, in use or cached.
ADJOINT_API std::size_t pinned_bytes_held();

}  // namespace detail
}  // namespace adjoint
