// The operators that a network calls, recorded to be repeated, and the places of their results in memory. Internal.
#pragma once

#include <adjoint/core/graph/planned_call.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/traced.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace adjoint::nn::detail {

struct PlannedNetwork {
  std::vector<std::unique_ptr<adjoint::detail::PlannedCall>> calls;
  std::vector<Tensor> inputs, outputs;
};

/// Runs f on copies of `examples` and records the calls whose results depend on them. Throws Error as Plan does.
PlannedNetwork record_calls(const TensorFunction& f, const std::vector<Tensor>& examples);

/// Moves inputs and results of calls into one block, in which those that do not live at the same time share memory.
/// Inputs and outputs do not share their memory. Returns the bytes of the block, which the tensors own.
std::size_t place_in_block(PlannedNetwork& network);

/// The tensors that calls read and no call writes, one of each storage.
std::vector<Tensor> constants_of(const PlannedNetwork& network);

}  // namespace adjoint::nn::detail
