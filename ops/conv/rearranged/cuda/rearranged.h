// The trio with operands in another order (rearranged/plan.h): copies of them, or of results, and whatever kernel is
// best for what is left. Infinity and NaN reach what they reach in that one, where zeros that stand for taps are
// multiplied as in correlation.h.
#pragma once

#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/rearranged/plan.h>

#include <cstdint>

namespace adjoint::cuda {

extern const ConvKernel rearranged_conv;
extern const ConvKernel rearranged_conv_transpose;
extern const ConvKernel rearranged_conv_weight;

/// Whether conv_weight is large enough for copies of its operands, and not one for ordinary cores.
bool weight_copies_may_pay(const ConvProblem& problem);

/// Planes at `from`, apart at `to`, on the device's current stream.
void unshuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// What is apart at `from`, put together at `to`.
void shuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// Samples at `from`, behind positions at `to`.
void put_samples_last(const SamplesLast& how, std::int64_t element_size, const void* from, void* to, int device);
/// Each of `count` elements, `times` times.
void repeat(std::int64_t count, std::int64_t times, std::int64_t element_size, const void* from, void* to, int device);

}  // namespace adjoint::cuda
