// Writes values into tensors of any strides and dtype. Not recorded; callers check that the tensor may be written.
#pragma once

#include <adjoint/core/tensor.h>

namespace adjoint {

void fill(Tensor& tensor, double value);
/// Element i of a contiguous tensor becomes start + i * step.
void fill_arange(Tensor& tensor, double start, double step);
/// As fill_uniform and fill_normal (random.h).
void draw_uniform(Tensor& tensor, double low, double high, Generator& generator);
void draw_normal(Tensor& tensor, double mean, double standard_deviation, Generator& generator);

}  // namespace adjoint
