// PyTorch's functions that are other names of operators or members: add(x, y) is x + y, reshape(x, {2, 3}) is
// x.reshape({2, 3}). The others compose operators and have their dtypes, devices, gradients and errors, unless
// documented otherwise. If several operators would round 16-bit operands repeatedly, they compute in float32 and round
// once.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/view/view.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint {

// ---- Tensor's members.

inline std::int64_t numel(const Tensor& x) { return x.numel(); }
inline bool is_floating_point(const Tensor& x) { return x.is_floating_point(); }
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor flatten(const Tensor& x, std::int64_t first_axis = 0, std::int64_t last_axis = -1) {
  return x.flatten(first_axis, last_axis);
}
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, std::int64_t axis) { return x.squeeze(axis); }
inline Tensor unsqueeze(const Tensor& x, std::int64_t axis) { return x.unsqueeze(axis); }
inline Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) { return x.transpose(a, b); }
inline Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) { return x.transpose(a, b); }
inline Tensor t(const Tensor& x) { return x.t(); }
inline Tensor permute(const Tensor& x, const Dims& axes) { return x.permute(axes); }
inline Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination) {
  return movedim(x, source, destination);
}
inline Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length) {
  return x.narrow(axis, start, length);
}
inline Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index) { return x.select(axis, index); }
inline Tensor broadcast_to(const Tensor& x, const Shape& shape) { return x.expand(shape); }

// ---- Operators. A scalar may replace the second operand.

#define ADJOINT_AS_FUNCTION(NAME, OTHER) \
  inline Tensor NAME(const Tensor& x, OTHER other) { return x.NAME(other); }
ADJOINT_AS_FUNCTION(mul, const Tensor&)
ADJOINT_AS_FUNCTION(mul, const Scalar&)
ADJOINT_AS_FUNCTION(div, const Tensor&)
ADJOINT_AS_FUNCTION(div, const Scalar&)
ADJOINT_AS_FUNCTION(eq, const Tensor&)
ADJOINT_AS_FUNCTION(eq, const Scalar&)
ADJOINT_AS_FUNCTION(ne, const Tensor&)
ADJOINT_AS_FUNCTION(ne, const Scalar&)
ADJOINT_AS_FUNCTION(lt, const Tensor&)
ADJOINT_AS_FUNCTION(lt, const Scalar&)
ADJOINT_AS_FUNCTION(le, const Tensor&)
ADJOINT_AS_FUNCTION(le, const Scalar&)
ADJOINT_AS_FUNCTION(gt, const Tensor&)
ADJOINT_AS_FUNCTION(gt, const Scalar&)
ADJOINT_AS_FUNCTION(ge, const Tensor&)
ADJOINT_AS_FUNCTION(ge, const Scalar&)
#undef ADJOINT_AS_FUNCTION
/// x + scale * other.
inline Tensor add(const Tensor& x, const Tensor& other, const Scalar& scale = 1) { return x.add(other, scale); }
inline Tensor add(const Tensor& x, const Scalar& other) { return x.add(other); }
/// x - scale * other.
inline Tensor sub(const Tensor& x, const Tensor& other, const Scalar& scale = 1) { return x.sub(other, scale); }
inline Tensor sub(const Tensor& x, const Scalar& other) { return x.sub(other); }
inline Tensor clip(const Tensor& x, const Scalar& low, const Scalar& high) { return clamp(x, low, high); }

// ---- Of elements.

/// The quotient, rounded down for "floor" and towards 0 for "trunc"; of integers an integer, else in x's dtype. If
/// float64 cannot hold a quotient of integers, the nearest number that it can. Its gradient is zero. Throws Error for
/// another name.
ADJOINT_API Tensor div(const Tensor& x, const Tensor& other, std::string_view rounding_mode);
ADJOINT_API Tensor div(const Tensor& x, const Scalar& other, std::string_view rounding_mode);
/// div(x, other, "floor").
ADJOINT_API Tensor floor_divide(const Tensor& x, const Tensor& other);
ADJOINT_API Tensor floor_divide(const Tensor& x, const Scalar& other);
/// x + scale * a * b.
ADJOINT_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double scale = 1.0);
/// x + scale * a / b.
ADJOINT_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double scale = 1.0);
/// x - trunc(x), with x's sign.
ADJOINT_API Tensor frac(const Tensor& x);
/// 2^x.
ADJOINT_API Tensor exp2(const Tensor& x);
/// The logarithm to base 10.
ADJOINT_API Tensor log10(const Tensor& x);
/// log(exp(a) + exp(b)), without overflow.
ADJOINT_API Tensor logaddexp(const Tensor& a, const Tensor& b);
/// log(x / (1 - x)): sigmoid's inverse.
ADJOINT_API Tensor logit(const Tensor& x);
/// x log(y), and 0 where x is 0, for any y but NaN.
ADJOINT_API Tensor xlogy(const Tensor& x, const Tensor& y);
/// sqrt(a^2 + b^2) of floating-point operands; no square overflows. The gradient at 0 is 0.
ADJOINT_API Tensor hypot(const Tensor& a, const Tensor& b);
/// 0 where x < 0, 1 where x > 0, and `values` where x is 0; NaN for NaN. No gradient.
ADJOINT_API Tensor heaviside(const Tensor& x, const Tensor& values);
/// Degrees as radians, and radians as degrees.
ADJOINT_API Tensor deg2rad(const Tensor& x);
ADJOINT_API Tensor rad2deg(const Tensor& x);
/// x where x > threshold, else value.
ADJOINT_API Tensor threshold(const Tensor& x, double threshold, double value);
/// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0) (Barron: "Continuously differentiable exponential linear units",
/// 2017). Throws Error for an alpha of 0.
ADJOINT_API Tensor celu(const Tensor& x, double alpha = 1.0);

/// x - size beyond size, x + size below -size, and 0 between; and x where |x| > size, else 0.
ADJOINT_API Tensor softshrink(const Tensor& x, double size = 0.5);
ADJOINT_API Tensor hardshrink(const Tensor& x, double size = 0.5);
/// x - tanh(x).
ADJOINT_API Tensor tanhshrink(const Tensor& x);

// ---- Parts and places.

/// Repeats x as repeat does, with 1 in front of fewer repeats than axes.
ADJOINT_API Tensor tile(const Tensor& x, const Dims& repeats);
/// Columns, and rows, in reverse order: axes 1 and 0. Throw Error for fewer axes.
ADJOINT_API Tensor fliplr(const Tensor& x);
ADJOINT_API Tensor flipud(const Tensor& x);
/// Turned `turns` quarter turns from axis axes[0] towards axes[1]. Throws Error unless there are two different axes.
ADJOINT_API Tensor rot90(const Tensor& x, std::int64_t turns = 1, const Dims& axes = {0, 1});
/// The elements at `index` (int64 or int32, of any shape) in row-major order, of index's shape.
ADJOINT_API Tensor take(const Tensor& x, const Tensor& index);
/// cat.
inline Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis = 0) { return cat(tensors, axis); }
/// vstack puts tensors below one another; those of one axis are rows. hstack puts them side by side, along axis 1, or
/// axis 0 if they have one axis. Both throw Error as cat does.
ADJOINT_API Tensor vstack(const std::vector<Tensor>& tensors);
ADJOINT_API Tensor hstack(const std::vector<Tensor>& tensors);
/// Differences of neighbours along `axis`, n times over: cumsum's inverse. Throws Error for a negative n.
ADJOINT_API Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t axis = -1);
/// Views: `sections` parts of equal extent, the first ones longer by one if the extent does not divide; or the parts
/// between these places. Throws Error for sections below 1.
ADJOINT_API std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t axis = 0);
ADJOINT_API std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& places,
                                             std::int64_t axis = 0);
/// Views of the tensors, each expanded to the shape that all of them broadcast to.
ADJOINT_API std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// For each element of x, the number of ascending `boundaries` (1-D) below it (or, with `right`, not above it), int64:
/// its insertion index. Every element is compared with every boundary. No gradient.
ADJOINT_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);
/// The count of each integer from 0 in x (1-D, no negative elements), int64, with at least `minlength` counts. Waits
/// for the device. No gradient.
ADJOINT_API Tensor bincount(const Tensor& x, std::int64_t minlength = 0);
/// True for each element of x that is among the elements of `among`, as bool. Every element is compared with each.
ADJOINT_API Tensor isin(const Tensor& x, const Tensor& among);

// ---- Sums.

/// The number of elements that are not 0 (int64); NaN counts. No gradient.
ADJOINT_API Tensor count_nonzero(const Tensor& x, const Dims& axes = {});
/// The sum of the elements that are not NaN.
ADJOINT_API Tensor nansum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
/// norm(x - y, p).
ADJOINT_API Tensor dist(const Tensor& x, const Tensor& y, double p = 2.0);
/// amin and amax.
ADJOINT_API std::pair<Tensor, Tensor> aminmax(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

// ---- Products: matmul of these ranks alone. All throw Error for others.

/// (M, K), (K, N) -> (M, N).
ADJOINT_API Tensor mm(const Tensor& a, const Tensor& b);
/// (M, K), (K) -> (M).
ADJOINT_API Tensor mv(const Tensor& a, const Tensor& vector);
/// (K), (K) -> a scalar.
ADJOINT_API Tensor dot(const Tensor& a, const Tensor& b);
/// beta x + alpha a b; a (M, K), b (K, N), x broadcasts to (M, N).
ADJOINT_API Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1.0, double alpha = 1.0);
/// The same of batches: a (B, M, K), b (B, K, N).
ADJOINT_API Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1.0, double alpha = 1.0);

// ---- Tensors made.

/// (n, m): ones on the diagonal, zeros elsewhere.
ADJOINT_API Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {});
/// `steps` numbers from base^start to base^end, their logarithms evenly apart.
ADJOINT_API Tensor logspace(double start, double end, std::int64_t steps, double base = 10.0,
                            const TensorOptions& options = {});
/// Normal numbers from the global generator, with one mean and deviation, or with a mean and deviation per element.
ADJOINT_API Tensor normal(double mean, double standard_deviation, const Shape& shape,
                          const TensorOptions& options = {});
ADJOINT_API Tensor normal(const Tensor& mean, const Tensor& standard_deviation);
/// randint of x's shape, and of its dtype and device unless the options name others.
ADJOINT_API Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high, const LikeOptions& options = {});
ADJOINT_API Tensor randint_like(const Tensor& x, std::int64_t high, const LikeOptions& options = {});

// ---- Losses, reduced as those of ops/loss/loss.h. Operands broadcast.

/// exp(input) - target input; with log_input false, input - target log(input + eps).
ADJOINT_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                                    Named<Reduction> reduction = Reduction::kMean, double eps = 1e-8);
/// input for a target of 1, and max(margin - input, 0) for a target of -1.
ADJOINT_API Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1.0,
                                        Named<Reduction> reduction = Reduction::kMean);
/// max(margin - target (a - b), 0), with a target of 1 if a should be larger, and -1 if b should.
ADJOINT_API Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0.0,
                                       Named<Reduction> reduction = Reduction::kMean);

/// One-hot in the limit of small tau: softmax((logits + g) / tau) along `axis`, g Gumbel-distributed, from the global
/// generator (Jang, Gu, Poole: "Categorical reparameterization with Gumbel-softmax", 2017). `hard` gives one-hot, with
/// the soft one's gradient. Throws Error unless tau is positive.
ADJOINT_API Tensor gumbel_softmax(const Tensor& logits, double tau = 1.0, bool hard = false, std::int64_t axis = -1);

}  // namespace adjoint
