// Makes a network rank 0's on every rank, and detects differences. Internal.
#pragma once

#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/module.h>

#include <string>

namespace adjoint::distributed {

inline constexpr const char* kName = "DataParallel";

/// A line for the options and one per tensor: the properties in which every rank's network must agree.
std::string description(const NamedTensors& parameters, const NamedTensors& buffers,
                        const DataParallelOptions& options);
/// Throws Error if a rank's description differs from rank 0's.
void check_alike(const std::string& own);
Part broadcast_of(const Tensor& tensor);
/// The buffers of the module itself, not of its children.
NamedTensors own_buffers(const nn::Module& module);
/// Sends rank 0's tensors to every rank: one call per device, through copies of tensors that are not contiguous.
void broadcast_all(const NamedTensors& named);

}  // namespace adjoint::distributed
