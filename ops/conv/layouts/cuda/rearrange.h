// Copies in other orders, on the device's current stream.
#pragma once

#include <adjoint/ops/conv/layouts/samples_last.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <cstdint>

namespace adjoint::cuda {

/// Planes at `from`, apart at `to`.
void unshuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// What is apart at `from`, put together at `to`.
void shuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// Samples at `from`, behind positions at `to`.
void put_samples_last(const SamplesLast& how, std::int64_t element_size, const void* from, void* to, int device);
/// Each of `count` elements, `times` times.
void repeat(std::int64_t count, std::int64_t times, std::int64_t element_size, const void* from, void* to, int device);

}  // namespace adjoint::cuda
