#include <adjoint/core/tensor/memory_format.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <ostream>

namespace adjoint {

const char* to_string(MemoryFormat format) { return format == kContiguous ? "contiguous" : "channels_last"; }

std::ostream& operator<<(std::ostream& out, MemoryFormat format) { return out << to_string(format); }

Dims memory_order(std::size_t rank, MemoryFormat format) {
  Dims order;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (format == kContiguous || axis != 1) order.push_back(static_cast<std::int64_t>(axis));
  }
  if (format == kChannelsLast) order.push_back(1);
  return order;
}

Strides strides_of(const char* op, const Shape& shape, MemoryFormat format) {
  if (format == kContiguous) return contiguous_strides(shape);
  ADJOINT_CHECK(has_format(shape.size(), format),
                "{}: a tensor in channels_last must have 3 to 5 axes, (N, C, ...); got shape {}", op, shape);
  const Dims order = memory_order(shape.size(), format);
  Shape in_memory;
  for (const std::int64_t axis : order) in_memory.push_back(shape[static_cast<std::size_t>(axis)]);
  const Strides packed = contiguous_strides(in_memory);
  Strides strides = Dims::filled(shape.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) strides[static_cast<std::size_t>(order[i])] = packed[i];
  return strides;
}

Tensor in_memory_order(const Tensor& tensor, MemoryFormat format) {
  const TensorImpl& impl = *tensor.impl();
  Shape shape;
  Strides strides;
  for (const std::int64_t axis : memory_order(impl.shape.size(), format)) {
    shape.push_back(impl.shape[static_cast<std::size_t>(axis)]);
    strides.push_back(impl.strides[static_cast<std::size_t>(axis)]);
  }
  return tensor.view_as(shape, strides, impl.offset);
}

MemoryFormat leading_format(std::span<const Tensor> tensors) {
  MemoryFormat of_masks = kContiguous;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const TensorImpl& impl = *tensor.impl();
    if (impl.dtype == kBool) {
      if (impl.channels_last) of_masks = kChannelsLast;
      continue;
    }
    if (impl.channels_last) return kChannelsLast;
    // A contiguous tensor of one channel, or of one element per channel, is in both formats.
    const bool is_image = has_format(impl.shape.size(), kChannelsLast);
    const bool decides =
        !is_image || (impl.shape[1] > 1 && std::any_of(impl.shape.begin() + 2, impl.shape.end(),
                                                       [](std::int64_t extent) { return extent != 1; }));
    if (impl.contiguous && decides) return kContiguous;
  }
  return of_masks;
}

bool is_packed(const Tensor& tensor) { return tensor.is_contiguous(tensor.memory_format()); }

}  // namespace adjoint
