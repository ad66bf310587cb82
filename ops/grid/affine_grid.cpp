// affine_grid: theta times (x, y, 1); only one of the sums is as large as the result.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/grid/grid.h>

namespace adjoint {
namespace {

// The centres of `count` pixels between -1 and 1.
Tensor centres(std::int64_t count, bool align_corners, const TensorOptions& options) {
  const double last = count == 1 ? 0.0 : align_corners ? 1.0 : 1.0 - 1.0 / static_cast<double>(count);
  return linspace(-last, last, count, options);
}

}  // namespace

Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners) {
  const OpScope scope("affine_grid");
  check_defined("affine_grid", "theta", theta);
  check_floating("affine_grid", theta.dtype());
  ADJOINT_CHECK(theta.dim() == 3 && theta.size(1) == 2 && theta.size(2) == 3 && size.size() == 4 &&
                    size[0] == theta.size(0) && size[2] >= 1 && size[3] >= 1,
                "affine_grid: theta must be (N, 2, 3) and size (N, C, H, W), with pixels; got {} and {}", theta.shape(),
                size);
  const Tensor t = widened(theta);
  const TensorOptions options{.dtype = t.dtype(), .device = t.device()};
  const auto column = [&](std::int64_t k) { return t.select(2, k).reshape({size[0], 1, 1, 2}); };
  const Tensor x = centres(size[3], align_corners, options).reshape({1, 1, size[3], 1});
  const Tensor y = centres(size[2], align_corners, options).reshape({1, size[2], 1, 1});
  return (x * column(0) + (y * column(1) + column(2))).to(theta.dtype());
}

}  // namespace adjoint
