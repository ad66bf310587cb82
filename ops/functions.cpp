#include <adjoint/ops/functions.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/loss/reduction.h>
#include <adjoint/ops/matmul/kernels.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/signal/spectra.h>
#include <adjoint/ops/softmax/softmax.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

namespace adjoint {
namespace {

enum class Rounding : std::uint8_t { kFloor, kTrunc };

Rounding rounding_of(std::string_view name) {
  constexpr std::array<const char*, 2> kNames{"floor", "trunc"};
  return static_cast<Rounding>(place_of("div: rounding_mode", name, kNames));
}

bool is_whole(const Tensor& x) { return !x.is_floating_point(); }

Tensor other_as_float64(const Tensor& other) { return other.to(kFloat64); }
Scalar other_as_float64(const Scalar& other) { return other; }

// (dividend - remainder) / divisor divides evenly, so its rounding is right even if dividend / divisor's would not be:
// PyTorch's way.
template <class Other>
Tensor rounded_quotient(const Tensor& x, const Other& other, bool whole, Rounding rounding) {
  const Tensor rest = rounding == Rounding::kFloor ? remainder(x, other) : fmod(x, other);
  if (whole) return round((x - rest).to(kFloat64) / other_as_float64(other)).to(rest.dtype());
  return round((x - rest) / other);
}

void check_rank(const char* op, const char* operand, const Tensor& x, std::int64_t rank) {
  check_defined(op, operand, x);
  ADJOINT_CHECK(x.dim() == rank, "{}: {} must have {} {}; got shape {}", op, operand, rank, rank == 1 ? "axis" : "axes",
                x.shape());
}

// f(x...), computed in float32 and rounded once if the operands have 16 bits: f's own steps would each round.
template <class F, class... Operands>
Tensor once_rounded(const F& f, const Operands&... x) {
  std::optional<DType> narrow;
  for (const Tensor* const operand : {&x...}) {
    if (!operand->defined() || !operand->is_floating_point()) continue;
    const DType dtype = operand->dtype();
    if (element_size(dtype) != 2 || (narrow && *narrow != dtype)) return f(x...);
    narrow = dtype;
  }
  return narrow ? f(widened(x)...).to(*narrow) : f(x...);
}

// beta x + alpha a b; if beta is 0, only x's shape counts. Products of 16-bit operands are added in float32.
Tensor weighted_sum(const char* op, std::int64_t rank, const Tensor& x, double beta, const Tensor& a, const Tensor& b,
                    double alpha) {
  check_defined(op, "x", x);
  check_rank(op, "a", a, rank);
  check_rank(op, "b", b, rank);
  if (const detail::AutocastCall low(MixedPrecision::kLow, {x, a, b}); low) {
    return weighted_sum(op, rank, low[0], beta, low[1], low[2], alpha);
  }
  ADJOINT_CHECK(x.dtype() == a.dtype(), "{}: x must have a's dtype; got {} for {}; convert one with to(dtype)", op,
                x.dtype(), a.dtype());
  return once_rounded(
      [&](const Tensor& added) {
        const Tensor product = widened_matmul(a, b);
        const Tensor scaled = alpha == 1.0 ? product : product * alpha;
        return beta == 0.0 ? scaled + zeros_like(added) : (beta == 1.0 ? added : added * beta) + scaled;
      },
      x);
}

}  // namespace

// ---- Of elements.

Tensor div(const Tensor& x, const Tensor& other, std::string_view rounding_mode) {
  const OpScope scope("div");
  const Rounding rounding = rounding_of(rounding_mode);
  check_defined("div", "x", x);
  check_defined("div", "other", other);
  return rounded_quotient(x, other, is_whole(x) && is_whole(other), rounding);
}
Tensor div(const Tensor& x, const Scalar& other, std::string_view rounding_mode) {
  const OpScope scope("div");
  const Rounding rounding = rounding_of(rounding_mode);
  check_defined("div", "x", x);
  return rounded_quotient(x, other, is_whole(x) && !other.is_floating_point(), rounding);
}
Tensor floor_divide(const Tensor& x, const Tensor& other) {
  const OpScope scope("floor_divide");
  return div(x, other, "floor");
}
Tensor floor_divide(const Tensor& x, const Scalar& other) {
  const OpScope scope("floor_divide");
  return div(x, other, "floor");
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double scale) {
  const OpScope scope("addcmul");
  return once_rounded([&](const Tensor& sum, const Tensor& p,
                          const Tensor& q) { return sum + (scale == 1.0 ? p * q : p * q * scale); },
                      x, a, b);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double scale) {
  const OpScope scope("addcdiv");
  return once_rounded([&](const Tensor& sum, const Tensor& p,
                          const Tensor& q) { return sum + (scale == 1.0 ? p / q : p / q * scale); },
                      x, a, b);
}
Tensor frac(const Tensor& x) {
  const OpScope scope("frac");
  return x - trunc(x);
}
Tensor exp2(const Tensor& x) {
  const OpScope scope("exp2");
  return pow(2.0, x);
}
Tensor log10(const Tensor& x) {
  const OpScope scope("log10");
  return once_rounded([](const Tensor& wide) { return log(wide) * std::numbers::log10e; }, x);
}
Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const OpScope scope("logaddexp");
  check_defined("logaddexp", "a", a);
  check_defined("logaddexp", "b", b);
  const Shape shape = broadcast_shapes("logaddexp", a.shape(), b.shape());
  return logsumexp(stack({a.expand(shape), b.expand(shape)}), 0);
}
Tensor logit(const Tensor& x) {
  const OpScope scope("logit");
  return once_rounded([](const Tensor& wide) { return log(wide) - log1p(-wide); }, x);
}
Tensor xlogy(const Tensor& x, const Tensor& y) {
  const OpScope scope("xlogy");
  return once_rounded(
      [](const Tensor& factor, const Tensor& of) {
        const Tensor skipped = (factor == 0) & ~isnan(of);
        return where(skipped, 0.0, factor * log(where(skipped, 1.0, of)));
      },
      x, y);
}
Tensor hypot(const Tensor& a, const Tensor& b) {
  const OpScope scope("hypot");
  check_defined("hypot", "a", a);
  check_defined("hypot", "b", b);
  const Shape shape = broadcast_shapes("hypot", a.shape(), b.shape());
  return once_rounded(
      [&](const Tensor& x, const Tensor& y) {
        return magnitudes(stack({x.expand(shape), y.expand(shape)}, -1), false);
      },
      a, b);
}
Tensor heaviside(const Tensor& x, const Tensor& values) {
  const OpScope scope("heaviside");
  return where(x == 0, values.detach(), where(isnan(x), x.detach(), (x > 0).to(x.dtype())));
}
Tensor deg2rad(const Tensor& x) {
  const OpScope scope("deg2rad");
  return x * (std::numbers::pi / 180.0);
}
Tensor rad2deg(const Tensor& x) {
  const OpScope scope("rad2deg");
  return x * (180.0 / std::numbers::pi);
}
Tensor threshold(const Tensor& x, double threshold, double value) {
  const OpScope scope("threshold");
  return where(x > threshold, x, value);
}
Tensor celu(const Tensor& x, double alpha) {
  const OpScope scope("celu");
  ADJOINT_CHECK(alpha != 0.0, "celu: alpha must not be 0; got {}", alpha);
  return once_rounded(
      [alpha](const Tensor& wide) {
        return clamp_min(wide, 0.0) + clamp_max(alpha * expm1(clamp_max(wide, 0.0) / alpha), 0.0);
      },
      x);
}

Tensor softshrink(const Tensor& x, double size) {
  const OpScope scope("softshrink");
  return where(x > size, x - size, where(x < -size, x + size, where(isnan(x), x, zeros_like(x))));
}
Tensor hardshrink(const Tensor& x, double size) {
  const OpScope scope("hardshrink");
  return where((x >= -size) & (x <= size), zeros_like(x), x);
}
Tensor tanhshrink(const Tensor& x) {
  const OpScope scope("tanhshrink");
  return once_rounded([](const Tensor& wide) { return wide - tanh(wide); }, x);
}

// ---- Parts and places.

Tensor tile(const Tensor& x, const Dims& repeats) {
  const OpScope scope("tile");
  check_defined("tile", "x", x);
  Dims all = repeats;
  while (static_cast<std::int64_t>(all.size()) < x.dim()) all.insert(0, 1);
  return repeat(x, all);
}
Tensor fliplr(const Tensor& x) {
  const OpScope scope("fliplr");
  return flip(x, 1);
}
Tensor flipud(const Tensor& x) {
  const OpScope scope("flipud");
  return flip(x, 0);
}
Tensor rot90(const Tensor& x, std::int64_t turns, const Dims& axes) {
  const OpScope scope("rot90");
  check_defined("rot90", "x", x);
  ADJOINT_CHECK(axes.size() == 2, "rot90: there must be two axes; got {}", axes);
  const std::size_t rank = x.shape().size();
  const auto from = static_cast<std::int64_t>(resolve_axis("rot90", axes[0], rank)),
             to = static_cast<std::int64_t>(resolve_axis("rot90", axes[1], rank));
  ADJOINT_CHECK(from != to, "rot90: the axes must differ; got {}", axes);
  switch ((turns % 4 + 4) % 4) {
    case 1: return flip(x, to).transpose(from, to);
    case 2: return flip(x, {from, to});
    case 3: return flip(x, from).transpose(from, to);
    default: return x.clone();
  }
}
Tensor take(const Tensor& x, const Tensor& at) {
  const OpScope scope("take");
  check_defined("take", "x", x);
  check_defined("take", "index", at);
  return index_select(x.flatten(), 0, at.flatten()).reshape(at.shape());
}
Tensor vstack(const std::vector<Tensor>& tensors) {
  const OpScope scope("vstack");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    check_defined("vstack", "each tensor", tensor);
    rows.push_back(tensor.dim() < 2 ? tensor.reshape({1, -1}) : tensor);
  }
  return cat(rows, 0);
}
Tensor hstack(const std::vector<Tensor>& tensors) {
  const OpScope scope("hstack");
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) {
    check_defined("hstack", "each tensor", tensor);
    all.push_back(tensor.dim() == 0 ? tensor.reshape({1}) : tensor);
  }
  return cat(all, !all.empty() && all.front().dim() > 1 ? 1 : 0);
}
Tensor diff(const Tensor& x, std::int64_t n, std::int64_t axis) {
  const OpScope scope("diff");
  check_defined("diff", "x", x);
  ADJOINT_CHECK(n >= 0, "diff: n must not be negative; got {}", n);
  const auto along = static_cast<std::int64_t>(resolve_axis("diff", axis, x.shape().size()));
  Tensor result = x;
  for (std::int64_t i = 0; i < n && result.size(along) > 0; ++i) {
    const std::int64_t left = result.size(along) - 1;
    const Tensor behind = result.narrow(along, 1, left), before = result.narrow(along, 0, left);
    result = x.dtype() == kBool ? behind ^ before : behind - before;
  }
  return result;
}
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t axis) {
  const OpScope scope("tensor_split");
  check_defined("tensor_split", "x", x);
  ADJOINT_CHECK(sections >= 1, "tensor_split: sections must be at least 1; got {}", sections);
  const std::int64_t extent = x.shape()[resolve_axis("tensor_split", axis, x.shape().size())];
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < sections; ++i) sizes.push_back(extent / sections + (i < extent % sections ? 1 : 0));
  return split(x, sizes, axis);
}
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& places, std::int64_t axis) {
  const OpScope scope("tensor_split");
  check_defined("tensor_split", "x", x);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i <= places.size(); ++i) {
    parts.push_back(slice(x, axis, i == 0 ? std::optional<std::int64_t>() : places[i - 1],
                          i == places.size() ? std::optional<std::int64_t>() : places[i]));
  }
  return parts;
}
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  const OpScope scope("broadcast_tensors");
  Shape shape;
  for (const Tensor& tensor : tensors) {
    check_defined("broadcast_tensors", "each tensor", tensor);
    shape = broadcast_shapes("broadcast_tensors", shape, tensor.shape());
  }
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.expand(shape));
  return all;
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  const OpScope scope("bucketize");
  check_defined("bucketize", "x", x);
  check_rank("bucketize", "boundaries", boundaries, 1);
  const Tensor each = x.unsqueeze(-1);
  return (right ? boundaries <= each : boundaries < each).sum(-1);
}
Tensor bincount(const Tensor& x, std::int64_t minlength) {
  const OpScope scope("bincount");
  check_rank("bincount", "x", x, 1);
  ADJOINT_CHECK(is_whole(x) && x.dtype() != kBool, "bincount: x must be of integers; got {}", x.dtype());
  ADJOINT_CHECK(x.numel() == 0 || x.min().item<std::int64_t>() >= 0,
                "bincount: no element must be negative; got a minimum of {}", x.min().item<std::int64_t>());
  const std::int64_t count = std::max(minlength, x.numel() == 0 ? 0 : x.max().item<std::int64_t>() + 1);
  const Tensor zeros = Tensor::zeros({count}, {.dtype = kInt64, .device = x.device()});
  return x.numel() == 0 ? zeros : scatter_add(zeros, 0, x.to(kInt64), ones_like(x, {.dtype = kInt64}));
}
Tensor isin(const Tensor& x, const Tensor& among) {
  const OpScope scope("isin");
  check_defined("isin", "x", x);
  check_defined("isin", "among", among);
  return any(x.unsqueeze(-1) == among.flatten(), -1);
}

// ---- Sums.

Tensor count_nonzero(const Tensor& x, const Dims& axes) {
  const OpScope scope("count_nonzero");
  return (x != 0).sum(axes);
}
Tensor nansum(const Tensor& x, const Dims& axes, bool keepdim) {
  const OpScope scope("nansum");
  return sum(where(isnan(x), 0, x), axes, keepdim);
}
Tensor dist(const Tensor& x, const Tensor& y, double p) {
  const OpScope scope("dist");
  return once_rounded([p](const Tensor& a, const Tensor& b) { return norm(a - b, p); }, x, y);
}
std::pair<Tensor, Tensor> aminmax(const Tensor& x, const Dims& axes, bool keepdim) {
  const OpScope scope("aminmax");
  return {amin(x, axes, keepdim), amax(x, axes, keepdim)};
}

// ---- Products.

Tensor mm(const Tensor& a, const Tensor& b) {
  const OpScope scope("mm");
  check_rank("mm", "a", a, 2);
  check_rank("mm", "b", b, 2);
  return matmul(a, b);
}
Tensor mv(const Tensor& a, const Tensor& vector) {
  const OpScope scope("mv");
  check_rank("mv", "a", a, 2);
  check_rank("mv", "vector", vector, 1);
  return matmul(a, vector);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  const OpScope scope("dot");
  check_rank("dot", "a", a, 1);
  check_rank("dot", "b", b, 1);
  return matmul(a, b);
}
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  const OpScope scope("addmm");
  return weighted_sum("addmm", 2, x, beta, a, b, alpha);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  const OpScope scope("baddbmm");
  return weighted_sum("baddbmm", 3, x, beta, a, b, alpha);
}

// ---- Tensors made.

Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options) {
  const OpScope scope("eye");
  ADJOINT_CHECK(n >= 0 && m >= 0, "eye: extents must not be negative; got {} and {}", n, m);
  const TensorOptions device{.device = options.device};
  const Tensor ones = Tensor::arange(n, device).unsqueeze(1) == Tensor::arange(m, device);
  Tensor result = ones.to(options.dtype.value_or(kFloat32));
  if (options.requires_grad) result.requires_grad_();
  return result;
}
Tensor logspace(double start, double end, std::int64_t steps, double base, const TensorOptions& options) {
  const OpScope scope("logspace");
  Tensor exponents = linspace(start, end, steps, {.dtype = kFloat64, .device = options.device});
  Tensor result = pow(base, exponents).to(options.dtype.value_or(kFloat32));
  if (options.requires_grad) result.requires_grad_();
  return result;
}
Tensor normal(double mean, double standard_deviation, const Shape& shape, const TensorOptions& options) {
  const OpScope scope("normal");
  Tensor result = Tensor::empty(shape, {.dtype = options.dtype, .device = options.device});
  result.normal_(mean, standard_deviation);
  if (options.requires_grad) result.requires_grad_();
  return result;
}
Tensor normal(const Tensor& mean, const Tensor& standard_deviation) {
  const OpScope scope("normal");
  check_defined("normal", "mean", mean);
  check_defined("normal", "standard_deviation", standard_deviation);
  const Shape shape = broadcast_shapes("normal", mean.shape(), standard_deviation.shape());
  return once_rounded([&](const Tensor& centre,
                          const Tensor& width) { return centre + width * Tensor::randn(shape, centre.options()); },
                      mean, standard_deviation);
}
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high, const LikeOptions& options) {
  const OpScope scope("randint_like");
  check_defined("randint_like", "x", x);
  return randint(low, high, x.shape(),
                 {.dtype = options.dtype.value_or(x.dtype()),
                  .device = options.device.value_or(x.device()),
                  .requires_grad = options.requires_grad});
}
Tensor randint_like(const Tensor& x, std::int64_t high, const LikeOptions& options) {
  return randint_like(x, 0, high, options);
}

// ---- Losses.

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, Named<Reduction> reduction,
                        double eps) {
  const OpScope scope("poisson_nll_loss");
  loss::check_reduction("poisson_nll_loss", reduction);
  return once_rounded(
      [&](const Tensor& x, const Tensor& y) {
        return loss::reduced(log_input ? exp(x) - y * x : x - y * log(x + eps), reduction);
      },
      input, target);
}
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin, Named<Reduction> reduction) {
  const OpScope scope("hinge_embedding_loss");
  loss::check_reduction("hinge_embedding_loss", reduction);
  return once_rounded(
      [&](const Tensor& x) {
        const Tensor zero = zeros_like(x);
        return loss::reduced(where(target == 1, x, zero) + where(target == -1, relu(margin - x), zero), reduction);
      },
      input);
}
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Named<Reduction> reduction) {
  const OpScope scope("margin_ranking_loss");
  loss::check_reduction("margin_ranking_loss", reduction);
  return once_rounded([&](const Tensor& x, const Tensor& y,
                          const Tensor& sign) { return loss::reduced(relu(margin - sign * (x - y)), reduction); },
                      a, b, target);
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, std::int64_t axis) {
  const OpScope scope("gumbel_softmax");
  check_defined("gumbel_softmax", "logits", logits);
  ADJOINT_CHECK(tau > 0.0, "gumbel_softmax: tau must be positive; got {}", tau);
  Tensor noise = empty_like(logits);
  noise.exponential_();
  const Tensor soft = softmax((logits - log(noise)) / tau, axis);
  if (!hard) return soft;
  const Tensor largest = argmax(soft, axis, true);
  const Tensor chosen = scatter(zeros_like(soft), axis, largest, 1.0);
  return chosen - soft.detach() + soft;
}

}  // namespace adjoint
