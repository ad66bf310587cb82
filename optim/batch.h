// What a step hands to its kernels. Internal to optim.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::optim {

/// Most tensors of a parameter's shape that an optimiser keeps for it.
inline constexpr std::size_t kMaxState = 3;

/// The dtype of that state, which is the one that updates are computed in (compute_t): an average of squares would
/// underflow in half precision.
constexpr DType state_dtype(DType parameter) {
  return parameter == kFloat16 || parameter == kBFloat16 ? kFloat32 : parameter;
}

/// One parameter and its tensors: addresses of `numel` contiguous elements each, state in state_dtype().
struct Item {
  Tensor* tensor;
  const Tensor* gradient_tensor;
  std::vector<Tensor>* state_tensors;
  void* parameter;
  const void* gradient;
  std::array<void*, kMaxState> state;
  std::int64_t numel;
};

/// Parameters that one rule updates: of one dtype, on one device, after the same number of updates.
struct Batch {
  Device device;
  DType dtype;
  std::int64_t step;  // this update's number, from 1
  std::vector<Item> items;
};

}  // namespace adjoint::optim
