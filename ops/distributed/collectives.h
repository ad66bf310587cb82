// Collectives: functions of all ranks' tensors (core/distributed/world.h). Every rank calls the same functions, in the
// same order, with tensors of one shape, dtype and kind of device. If a rank does not, or does not arrive within the
// timeout, all ranks throw an Error that names ranks and operations. On a GPU collectives run in the order of the
// current stream. In a world of one each returns its operand's elements.
//
// Every rank gets the same bits, and the same bits from run to run. On CPUs elements are combined in the order of
// ranks, ((x0 + x1) + x2) + ..., float16 and bfloat16 in float32 and rounded once. On GPUs the order is NCCL's, which
// the number of ranks, the shape and the machine determine.
//
// Gradients are those of the sum of all ranks' results: if every rank computes a loss, a sweep on every rank gives
// d(sum of losses) / d(operand). A sweep runs the gradients of the results that its loss depends on, so every rank's
// loss must depend on the same collectives' results. If one rank's loss does not, the next collective throws Error.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/distributed/world.h>
#include <adjoint/core/tensor/tensor.h>

namespace adjoint::distributed {

/// Combines all ranks' x element by element, and returns the result on every rank. All dtypes; kAvg only for floating
/// point; bool only with kMin (and) and kMax (or). kSum and kAvg are differentiable to any order; a gradient of the
/// others throws Error.
ADJOINT_API Tensor all_reduce(const Tensor& x, ReduceOp op = ReduceOp::kSum);
/// Rank `src`'s x on every rank. Differentiable. Throws Error if there is no rank `src`.
ADJOINT_API Tensor broadcast(const Tensor& x, int src = 0);
/// All ranks' x, concatenated along axis 0: (n, ...) -> (world_size * n, ...). Differentiable.
ADJOINT_API Tensor all_gather(const Tensor& x);
/// This rank's part of the combined x along axis 0: (world_size * n, ...) -> (n, ...). Dtypes and gradients as in
/// all_reduce. Throws Error if the world's size does not divide axis 0.
ADJOINT_API Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::kSum);

// all_reduce in place, unrecorded.

ADJOINT_API void all_reduce_(Tensor& x, ReduceOp op = ReduceOp::kSum);
ADJOINT_API void broadcast_(Tensor& x, int src = 0);

/// Returns after every rank has called it. Waits for ranks, not for their GPUs.
ADJOINT_API void barrier();

}  // namespace adjoint::distributed
