// The device and stream of a call of the library, and the memory layouts of its tensors. native.py is the counterpart
// in Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#if defined(ADJOINT_TORCH_CUDA)
#include <c10/cuda/CUDAStream.h>
#endif

#include "c_api.h"

namespace adjoint_torch {

using at::Tensor;

inline int dtype_of(const char* name, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kHalf: return ADJOINT_FLOAT16;
    case at::kBFloat16: return ADJOINT_BFLOAT16;
    case at::kFloat: return ADJOINT_FLOAT32;
    case at::kDouble: return ADJOINT_FLOAT64;
    default:
      TORCH_CHECK_VALUE(false, name, ": the dtype must be float16, bfloat16, float32 or float64; got ",
                        tensor.scalar_type());
  }
}

inline void* stream_of(const Tensor& tensor) {
#if defined(ADJOINT_TORCH_CUDA)
  if (tensor.is_cuda()) return c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream();
#endif
  (void)tensor;
  return nullptr;
}

inline adjoint_context context_of(const char* name, const Tensor& tensor, int precision) {
  const int device = tensor.is_cuda() ? static_cast<int>(tensor.get_device()) : -1;
  return {device, stream_of(tensor), dtype_of(name, tensor), precision};
}

/// Returns channels_last for a picture or volume, or the contiguous format for other numbers of axes.
inline at::MemoryFormat last_format(int64_t dim) {
  return dim == 4   ? at::MemoryFormat::ChannelsLast
         : dim == 5 ? at::MemoryFormat::ChannelsLast3d
                    : at::MemoryFormat::Contiguous;
}

/// Returns true if the tensor is in channels_last without gaps, and not contiguous as well.
inline bool is_channels_last(const Tensor& tensor) {
  return !tensor.is_contiguous() && tensor.is_contiguous(last_format(tensor.dim()));
}

/// Returns true if the operand's strides ask for a result in channels_last. They may have gaps; for a tensor with both
/// layouts, the strides of axes of extent 1 decide. An object that represents a batch of tensors has no storage, and
/// only one layout.
inline bool asks_for_channels_last(const Tensor& tensor) {
  return tensor.has_storage() && tensor.suggest_memory_format() != at::MemoryFormat::Contiguous;
}

/// Returns true if a kernel may be able to read the tensor in channels_last; the library decides. The tensor may be
/// contiguous as well.
inline bool may_be_read(const Tensor& tensor, int precision) {
  const at::ScalarType dtype = tensor.scalar_type();
  const bool is_rounded =
      dtype == at::kHalf || dtype == at::kBFloat16 || (dtype == at::kFloat && precision == ADJOINT_PRECISION_TF32);
  return is_rounded && tensor.is_cuda() && tensor.has_storage() && tensor.dim() >= 4 && !tensor.is_neg() &&
         tensor.is_contiguous(last_format(tensor.dim()));
}
inline bool may_be_read_as_it_lies(const Tensor& tensor, int precision) {
  return may_be_read(tensor, precision) && is_channels_last(tensor);
}

/// Copies by the library, whose copies between these layouts take a fraction of PyTorch's time.
inline Tensor copied(decltype(adjoint_copy_to_channels_last)* copy, const Tensor& tensor, at::MemoryFormat format) {
  Tensor out = at::empty(tensor.sizes(), tensor.options().memory_format(format));
  const adjoint_context context = context_of("adjoint", tensor, ADJOINT_PRECISION_FLOAT32);
  int64_t extents[4] = {tensor.size(0), tensor.size(1), 1, tensor.size(-1)};
  for (int64_t axis = 2; axis + 1 < tensor.dim(); ++axis) extents[2] *= tensor.size(axis);
  TORCH_CHECK(copy(&context, extents, tensor.data_ptr(), out.data_ptr()) == 0, adjoint_last_error());
  return out;
}

/// Returns the tensor with contiguous elements, and with the values that memory holds, because the library reads
/// memory. Records nothing.
inline Tensor plain(const Tensor& tensor) {
  if (tensor.is_neg()) return tensor.resolve_neg().contiguous();
  if (is_channels_last(tensor)) {
    return copied(adjoint_copy_from_channels_last, tensor, at::MemoryFormat::Contiguous);
  }
  return tensor.is_contiguous() ? tensor : tensor.contiguous();
}

/// Returns a contiguous picture or volume in channels_last, without a copy if it has both layouts. Records nothing.
inline Tensor channels_last_of(const Tensor& tensor) {
  const at::MemoryFormat format = last_format(tensor.dim());
  return tensor.is_contiguous(format) ? tensor : copied(adjoint_copy_to_channels_last, tensor, format);
}

/// Makes a tensor contiguous, or a contiguous tensor channels_last. PyTorch makes the copy if it records it, as in a
/// backward pass that is differentiated again, and if there is no memory, as under a transform or on the device meta.
inline Tensor laid(const Tensor& tensor, bool to_channels_last) {
  const bool recorded = c10::GradMode::is_enabled() && tensor.requires_grad();
  const bool is_memory =
      tensor.has_storage() && !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Functionalize);
  if (recorded || !is_memory) {
    return tensor.resolve_neg().contiguous(to_channels_last ? last_format(tensor.dim()) : at::MemoryFormat::Contiguous);
  }
  return to_channels_last ? channels_last_of(tensor) : plain(tensor);
}

}  // namespace adjoint_torch
