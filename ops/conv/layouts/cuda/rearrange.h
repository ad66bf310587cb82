// Copies in other orders, on the device's current stream.
#pragma once

#include <adjoint/ops/conv/layouts/samples_last.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <cstdint>

namespace adjoint::cuda {

/// Takes the planes at `from` apart; writes the parts to `to`.
void unshuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// Puts the parts at `from` together; writes the planes to `to`.
void shuffle(const Unshuffle& how, std::int64_t element_size, const void* from, void* to, int device);
/// Copies the samples at `from` to `to`, with samples as the innermost axis.
void put_samples_last(const SamplesLast& how, std::int64_t element_size, const void* from, void* to, int device);
/// Writes each of `count` elements `times` times.
void repeat(std::int64_t count, std::int64_t times, std::int64_t element_size, const void* from, void* to, int device);

}  // namespace adjoint::cuda
