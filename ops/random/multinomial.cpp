// multinomial: with replacement a search in the running sums of the weights; without it the least of exponential
// variables, whose rates are the weights (Efraimidis, Spirakis: "Weighted random sampling with a reservoir", 2006).
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/random/random.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/ops/sort/sort.h>

#include <limits>

namespace adjoint {

Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement) {
  constexpr const char* kOp = "multinomial";
  const OpScope scope(kOp);
  check_defined(kOp, "weights", weights);
  ADJOINT_CHECK(is_floating_point(weights.dtype()) && (weights.dim() == 1 || weights.dim() == 2),
                "{}: weights must be floating point and (C) or (N, C); got {} {}", kOp, weights.dtype(),
                weights.shape());
  ADJOINT_CHECK(num_samples >= 1, "{}: num_samples must be at least 1; got {}", kOp, num_samples);
  const Tensor rows = weights.detach().to(kFloat64).reshape({-1, weights.size(-1)});
  const std::int64_t count = rows.size(0), classes = rows.size(1);
  if (count == 0) return Tensor::zeros({0, num_samples}, {.dtype = kInt64, .device = weights.device()});
  ADJOINT_CHECK(classes > 0 && all(logical_and(isfinite(rows), rows >= 0.0)).item<bool>(),
                "{}: weights must be finite and not negative; got others in {}", kOp, weights.shape());
  const std::int64_t least = (rows > 0.0).sum(1).min().item<std::int64_t>();
  ADJOINT_CHECK(least >= (replacement ? 1 : num_samples),
                "{}: a row must have {} weights above 0 at least; got one of {} in weights {}", kOp,
                replacement ? 1 : num_samples, least, weights.shape());
  const TensorOptions options = rows.options();
  Tensor drawn;
  if (replacement) {
    // Dividing by the largest weight keeps the sums from overflowing.
    const Tensor sums = cumsum(rows / amax(rows, 1, true), 1), total = sums.narrow(1, classes - 1, 1);
    // u total may round to the total, behind the last class. The last class that has a weight then replaces it.
    const Tensor places = searchsorted(sums, Tensor::rand({count, num_samples}, options) * total, true);
    drawn = minimum(places, searchsorted(sums, total));
  } else {
    // Exponential variables of rate w: -log(1 - u) / w; the least are drawn first.
    const Tensor waits = -log1p(-Tensor::rand(rows.shape(), options)) / rows;
    const Tensor never = Tensor::full({}, std::numeric_limits<double>::infinity(), options);
    drawn = topk(where(rows > 0.0, waits, never), num_samples, 1, false).second;
  }
  return weights.dim() == 1 ? drawn.reshape({num_samples}) : drawn;
}

}  // namespace adjoint
