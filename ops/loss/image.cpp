// Image metrics, composed of other operators.
#include <adjoint/ops/loss/image.h>

#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/reduction.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoint {
namespace {

void check_images(const char* op, const Tensor& input) {
  ADJOINT_CHECK(input.dim() == 4, "{}: images must have four axes, (N, C, H, W); got shape {}", op, input.shape());
}

void check_positive(const char* op, const char* what, double value) {
  ADJOINT_CHECK(value > 0.0, "{}: {} must be positive; got {}", op, what, value);
}

// (1, 1, size, 1), with sum 1.
Tensor gaussian_window(const SsimOptions& options, const TensorOptions& of) {
  std::vector<double> taps;
  double sum = 0.0;
  for (std::int64_t i = 0; i < options.window_size; ++i) {
    const double at = static_cast<double>(2 * i + 1 - options.window_size) / 2.0 / options.sigma;
    taps.push_back(std::exp(-at * at / 2.0));
    sum += taps.back();
  }
  for (double& tap : taps) tap /= sum;
  return Tensor::from_vector(taps, {1, 1, options.window_size, 1}, of);
}

// The checks of ssim and psnr on the images that they compare.
template <class Options>
void check_metric(const char* op, const Tensor& input, const Tensor& target, const Options& options) {
  loss::check_pair(op, "input", input, "target", target);
  loss::check_reduction(op, options.reduction);
  check_images(op, input);
  check_positive(op, "data_range", options.data_range);
}

Tensor over_images(const Tensor& each, Reduction reduction, const Tensor& input) {
  return loss::reduced(each, reduction).to(input.dtype());
}

}  // namespace

Tensor ssim(const Tensor& input, const Tensor& target, const SsimOptions& options) {
  constexpr const char* kOp = "ssim";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return ssim(full[0], full[1], options);
  }
  check_metric(kOp, input, target, options);
  check_positive(kOp, "sigma", options.sigma);
  const std::int64_t n = input.size(0), c = input.size(1), h = input.size(2), w = input.size(3);
  const std::int64_t size = options.window_size;
  ADJOINT_CHECK(size >= 1 && size % 2 == 1 && size <= h && size <= w,
                "{}: window_size must be odd, and at most height and width; got {}, input {}", kOp, size,
                input.shape());
  const Tensor whole_x = widened(input).reshape({n * c, 1, h, w}), whole_y = widened(target).reshape({n * c, 1, h, w});
  // The images' mean level is subtracted first. It would cancel leading digits of the variances.
  const Tensor level = ((whole_x + whole_y).mean({1, 2, 3}, true) / 2.0).detach();
  const Tensor x = whole_x - level, y = whole_y - level, apart = x - y;
  const Tensor window = gaussian_window(options, {.dtype = x.dtype(), .device = x.device()});
  const Tensor all = cat({x, y, x * y, square(apart)});
  const Tensor blurred = conv2d(conv2d(all, window), window.transpose(2, 3));
  const auto moment = [&](std::int64_t i) { return blurred.narrow(0, i * n * c, n * c); };
  const Tensor rest_x = moment(0), rest_y = moment(1), step = square(rest_x - rest_y);
  const double c1 = std::pow(options.k1 * options.data_range, 2), c2 = std::pow(options.k2 * options.data_range, 2);
  // a^2 + b^2 is 2 a b + (a - b)^2, for means and for deviations, so numerators never exceed denominators, not even by
  // rounding.
  const Tensor likeness = (rest_x + level) * (rest_y + level) * 2.0 + c1;
  const Tensor covariance = (moment(2) - rest_x * rest_y) * 2.0 + c2, distance = clamp_min(moment(3) - step, 0.0);
  const Tensor map = likeness / (likeness + step) * (covariance / (covariance + distance));
  const Tensor each = map.reshape({n, c, h - size + 1, w - size + 1}).mean({1, 2, 3});
  return over_images(each, options.reduction, input);
}

Tensor psnr(const Tensor& input, const Tensor& target, const PsnrOptions& options) {
  constexpr const char* kOp = "psnr";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input, target}); full) {
    return psnr(full[0], full[1], options);
  }
  check_metric(kOp, input, target, options);
  const Tensor errors = square((widened(input) - widened(target)) / options.data_range).mean({1, 2, 3});
  const Tensor each = 0.0 - log(errors) * (10.0 / std::log(10.0));
  return over_images(each, options.reduction, input);
}

Tensor total_variation(const Tensor& input, Named<Reduction> reduction) {
  constexpr const char* kOp = "total_variation";
  const OpScope scope(kOp);
  if (const detail::AutocastCall full(MixedPrecision::kFull, {input}); full) {
    return total_variation(full[0], reduction);
  }
  loss::check_floating(kOp, "input", input);
  loss::check_reduction(kOp, reduction);
  check_images(kOp, input);
  const Tensor x = widened(input);
  const auto along = [&](std::int64_t axis) {
    const std::int64_t steps = std::max<std::int64_t>(0, x.size(axis) - 1), first = x.size(axis) - steps;
    return abs(x.narrow(axis, first, steps) - x.narrow(axis, 0, steps)).sum({1, 2, 3});
  };
  return over_images(along(2) + along(3), reduction, input);
}

}  // namespace adjoint
