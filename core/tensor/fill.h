// Writes values into tensors of any strides and dtype. Not recorded; callers check that the tensor may be written.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace adjoint {
namespace philox {
struct Position;
}

void fill(Tensor& tensor, double value);
/// Element i of a contiguous tensor becomes start + i * step.
void fill_arange(Tensor& tensor, double start, double step);
/// Like fill_uniform and fill_normal (random.h).
void draw_uniform(Tensor& tensor, double low, double high, Generator& generator);
/// Integers of [low, high), low < high, which the tensor's dtype can hold.
void draw_integers(Tensor& tensor, std::int64_t low, std::int64_t high, Generator& generator);
void draw_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator);

/// Reserves the random numbers of a tensor of this shape and returns their position. Throws Error if the generator must
/// not draw for the device.
ADJOINT_API philox::Position reserve_numbers(const Shape& shape, Device device, Generator& generator);

}  // namespace adjoint
