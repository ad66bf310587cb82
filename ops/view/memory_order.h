// Operators whose attributes name axes run on tensors in channels_last through views in the order of memory. Internal
// to ops.
#pragma once

#include <adjoint/core/graph/call_trace.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstddef>
#include <cstdint>

namespace adjoint {

/// False under a trace: in a file the axes keep the order that programs see.
inline bool is_channels_last(const Tensor& x) {
  return x.defined() && x.memory_format() == kChannelsLast && detail::CallTrace::of_functions() == nullptr;
}

/// The axis of (N, ..., C) that is axis `axis` of (N, C, ...).
constexpr std::size_t memory_axis(std::size_t axis, std::size_t rank) {
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

/// x (N, C, ...) seen as (N, ..., C), and back. Recorded views.
Tensor to_memory_order(const Tensor& x);
Tensor from_memory_order(const Tensor& x);

}  // namespace adjoint
