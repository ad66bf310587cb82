// The arguments of a step's kernels. Internal to optim.
#pragma once

#include <adjoint/core/base/device.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/dtype.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/optim/gate.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoint::optim {

/// The most tensors of a parameter's shape that an optimiser keeps for it, not counting its master weight.
inline constexpr std::size_t kMaxState = 3;

/// The dtype of that state, in which updates are computed (compute_t): an average of squares would underflow in half
/// precision.
constexpr DType state_dtype(DType parameter) {
  return parameter == kFloat16 || parameter == kBFloat16 ? kFloat32 : parameter;
}

/// One parameter and its tensors: addresses of `numel` contiguous elements each, master and state in state_dtype(). If
/// there is a master, a rule changes it and the parameter becomes its rounding; if an element of the parameter differs
/// from that, the program wrote it, and the rule starts from it. If there is no parameter, a rule changes only the
/// master.
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
  Gated* gated = nullptr;  // on the batch's device, if the batch has a gate
};

/// Parameters that one rule updates: of one group and dtype, on one device, with the same number of updates.
struct Batch {
  Device device;
  DType dtype;
  std::size_t group;
  std::int64_t step;  // this update's number, from 1; with a gate it includes skipped updates
  std::vector<Item> items;
  /// In a captured step the rule's numbers (with a gate, its attributes) are written here, and kernels read them on the
  /// device. In a replay, a batch without items writes the numbers of that update.
  adjoint::detail::StepCapture::Place rule = {};
  std::optional<Gate> gate = {};
};

/// The address at which a kernel writes a tensor's elements. It does not count the write; its caller does.
inline void* writable_address(const Tensor& tensor) { return const_cast<void*>(tensor.raw_data()); }

}  // namespace adjoint::optim
