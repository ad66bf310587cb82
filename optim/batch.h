// What a step hands to its kernels. Internal to optim.
#pragma once

#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/step_capture.h>
#include <adjoint/core/tensor.h>
#include <adjoint/optim/gate.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::optim {

/// Most tensors of a parameter's shape that an optimiser keeps for it, its master weight aside.
inline constexpr std::size_t kMaxState = 3;

/// The dtype of that state, which is the one that updates are computed in (compute_t): an average of squares would
/// underflow in half precision.
constexpr DType state_dtype(DType parameter) {
  return parameter == kFloat16 || parameter == kBFloat16 ? kFloat32 : parameter;
}

/// One parameter and its tensors: addresses of `numel` contiguous elements each, master and state in state_dtype().
/// Where there is a master, a rule changes that and the parameter becomes what it rounds to; an element of the
/// parameter that is something else was written by the program, and the rule begins with it. Without a parameter a rule
/// changes the master alone.
struct Item {
  Tensor* tensor;
  const Tensor* gradient_tensor;
  Tensor* master_tensor;
  std::vector<Tensor>* state_tensors;
  void* parameter;
  const void* gradient;
  void* master;
  std::array<void*, kMaxState> state;
  std::int64_t numel;
  Gated* gated = nullptr;  // on the batch's device, where the batch has a gate
};

/// Parameters that one rule updates: of one group and dtype, on one device, after the same number of updates.
struct Batch {
  Device device;
  DType dtype;
  std::size_t group;
  std::int64_t step;  // this update's number, from 1, and with a gate that of those which it left out
  std::vector<Item> items;
  /// In a captured step the rule's numbers, with a gate its attributes, are written here, and kernels read them on the
  /// device: in a replay a batch without items writes those of that update.
  adjoint::detail::StepCapture::Place rule = {};
  std::optional<Gate> gate = {};
};

}  // namespace adjoint::optim
