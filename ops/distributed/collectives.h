// Collectives: functions of all ranks' tensors (core/distributed/world.h). Every rank calls the same ones, in the same
// order, with tensors of one shape, dtype and kind of device; where a rank does not, or does not come within the
// timeout, all of them throw Error, which names ranks and operations. On a GPU they run in the order of the current
// stream. In a world of one each gives back its operand's elements.
//
// Every rank gets the same bits, and the same from run to run. On CPUs elements are combined in the order of ranks,
// ((x0 + x1) + x2) + ..., float16 and bfloat16 in float32 and rounded once. On GPUs the order is NCCL's, which the
// number of ranks, the shape and the machine fix.
//
// Gradients are those of the sum of all ranks' results: where every rank computes a loss, a sweep on every rank gives
// d(sum of losses) / d(operand).
#pragma once

#include <adjoint/core/distributed/world.h>
#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>

namespace adjoint::distributed {

/// All ranks' x, combined element by element, on every rank. Any dtype; kAvg floating point only, and of bool kMin
/// (and) and kMax (or) only. Differentiable, kSum and kAvg to any order; a gradient of the others throws Error.
ADJOINT_API Tensor all_reduce(const Tensor& x, ReduceOp op = ReduceOp::kSum);
/// Rank `src`'s x on every rank. Differentiable. Throws Error for a rank that is none.
ADJOINT_API Tensor broadcast(const Tensor& x, int src = 0);
/// All ranks' x, one behind the other along axis 0: (n, ...) -> (world_size * n, ...). Differentiable.
ADJOINT_API Tensor all_gather(const Tensor& x);
/// This rank's part of the combined x along axis 0: (world_size * n, ...) -> (n, ...). Dtypes as all_reduce.
/// Differentiable as all_reduce. Throws Error where the world's size does not divide axis 0.
ADJOINT_API Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::kSum);

// In place, and not recorded.

ADJOINT_API void all_reduce_(Tensor& x, ReduceOp op = ReduceOp::kSum);
ADJOINT_API void broadcast_(Tensor& x, int src = 0);

/// Returns once every rank has called it. Waits for ranks, not for their GPUs.
ADJOINT_API void barrier();

}  // namespace adjoint::distributed
