#include <adjoint/ops/matmul/rotary.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/view/view.h>

#include <cmath>
#include <vector>

namespace adjoint {
namespace {

constexpr const char* kRotary = "rotary_embedding";

// (..., L, pairs), float64. The options' positions are checked against `rows`, x's shape without its last axis.
Tensor rotary_angles(const RotaryOptions& options, const Shape& rows, std::int64_t pairs, Device device) {
  const TensorOptions wide{.dtype = kFloat64, .device = device};
  Tensor positions = options.positions;
  if (positions.defined()) {
    ADJOINT_CHECK(positions.dtype() != kBool && broadcast_shapes(kRotary, positions.shape(), rows) == rows,
                  "{}: positions must be numbers that broadcast to x's shape without its last axis; got {} {} for {}",
                  kRotary, positions.dtype(), positions.shape(), rows);
    positions = positions.detach().to(kFloat64);
  } else {
    positions = Tensor::arange(0, rows[rows.size() - 1], 1, wide) + static_cast<double>(options.offset);
  }
  const double step = -std::log(options.base) / static_cast<double>(pairs);
  return positions.unsqueeze(-1) * exp(Tensor::arange(0, pairs, 1, wide) * step);
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options) {
  const OpScope scope(kRotary);
  check_defined(kRotary, "x", x);
  ADJOINT_CHECK(is_floating_point(x.dtype()) && x.dim() >= 2,
                "{}: x must be floating point with two axes or more, (..., L, E); got {} {}", kRotary, x.dtype(),
                x.shape());
  const std::int64_t features = x.size(-1), turned = options.dim.value_or(features);
  ADJOINT_CHECK(turned >= 0 && turned <= features && turned % 2 == 0,
                "{}: the number of features that turn must be even and at most the last extent; got {} for x {}",
                kRotary, turned, x.shape());
  ADJOINT_CHECK(options.base > 0.0 && std::isfinite(options.base), "{}: base must be positive; got {}", kRotary,
                options.base);
  if (turned == 0) return x;
  if (turned < features) {
    RotaryOptions whole = options;
    whole.dim = {};
    const std::vector<Tensor> parts = split(x, {turned, features - turned}, -1);
    return cat({rotary_embedding(parts[0], whole), parts[1]}, -1);
  }
  const std::int64_t pairs = turned / 2;
  const Shape rows(x.shape().begin(), x.shape().end() - 1);
  const Tensor angles = rotary_angles(options, rows, pairs, x.device());
  // (..., L, pairs, 2) or (..., L, 2, pairs)
  const std::int64_t axis = options.interleaved ? -1 : -2;
  const std::vector<Tensor> pair =
      unbind(unflatten(widened(x), -1, options.interleaved ? Shape{pairs, 2} : Shape{2, pairs}), axis);
  const Tensor cosine = cos(angles).to(pair[0].dtype()), sine = sin(angles).to(pair[0].dtype());
  const Tensor turned_pair = stack({pair[0] * cosine - pair[1] * sine, pair[1] * cosine + pair[0] * sine}, axis);
  return turned_pair.reshape(x.shape()).to(x.dtype());
}

}  // namespace adjoint
