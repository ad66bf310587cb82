// Page-locked ('pinned') memory of the host, which a GPU copies to and from by itself while the host goes on. Loaders
// prefetch into it:
//
//   Tensor batch = empty_pinned({64, 3, 224, 224});   // filled by a worker
//   const StreamGuard guard(copies);                  // a stream of the copies' own
//   Tensor on_gpu = to_async(batch, kCUDA);           // returns at once
//   ...
//   Stream::current().wait(copies);                   // before on_gpu is used on another stream
//
// The memory of a pinned tensor that goes is kept for the next one, and handed out again only when the copies that use
// it are done. Where there is no GPU all this is ordinary memory and ordinary copies, so that programs need no branch.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/export.h>
#include <adjoint/core/shape.h>
#include <adjoint/core/tensor.h>

#include <cstddef>

namespace adjoint {

/// An uninitialised contiguous CPU tensor in page-locked memory. Throws as Tensor::empty does.
ADJOINT_API Tensor empty_pinned(const Shape& shape, DType dtype = kFloat32);
/// The elements of a CPU tensor, contiguous in page-locked memory: itself where it is so already. Not recorded. Throws
/// Error for a tensor on another device.
ADJOINT_API Tensor pin_memory(const Tensor& x);
/// Whether a tensor's memory is page-locked; false on every device but the CPU, and where there is no GPU.
ADJOINT_API bool is_pinned(const Tensor& x);

/// target.copy_(source), in the order of the GPU's current stream, without waiting for it: where one of them is a
/// pinned CPU tensor, the other is on a GPU, and both are contiguous and of one shape and dtype. Any other copy is
/// copy_'s. Do not write to the CPU tensor, nor read it where it is the target, before the stream is done
/// (Stream::synchronize). Not recorded; throws Error as copy_ does.
ADJOINT_API void copy_async(const Tensor& source, Tensor& target);
/// A tensor on `device` that copy_async() fills; x itself where it is there. Not recorded.
ADJOINT_API Tensor to_async(const Tensor& x, Device device);

namespace detail {

/// Page-locked bytes that the process holds, used or kept.
ADJOINT_API std::size_t pinned_bytes_held();

}  // namespace detail
}  // namespace adjoint
