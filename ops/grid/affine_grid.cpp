// affine_grid: theta times (x, y, 1), or (x, y, z, 1); only the last of the sums is as large as the result.
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
  const std::size_t axes = size.size() == 5 ? 3 : 2;
  const auto count = static_cast<std::int64_t>(axes);
  bool fits = theta.dim() == 3 && theta.size(1) == count && theta.size(2) == count + 1 && size.size() == axes + 2 &&
              size[0] == theta.size(0);
  for (std::size_t axis = 2; axis < size.size(); ++axis) fits = fits && size[axis] >= 1;
  ADJOINT_CHECK(fits,
                "affine_grid: theta must be (N, 2, 3) and size (N, C, H, W), or theta (N, 3, 4) and size (N, C, D, H, "
                "W), with pixels; got {} and {}",
                theta.shape(), size);
  const Tensor t = widened(theta);
  const TensorOptions options{.dtype = t.dtype(), .device = t.device()};
  Shape of_column = Dims::filled(axes + 2, 1);
  of_column[0] = size[0], of_column[axes + 1] = count;
  const auto column = [&](std::int64_t k) { return t.select(2, k).reshape(of_column); };
  Tensor sum = column(count);
  for (std::int64_t k = count - 1; k >= 0; --k) {
    const std::size_t axis = axes - static_cast<std::size_t>(k);  // x is the last
    const std::int64_t extent = size[axis + 1];
    Shape along = Dims::filled(axes + 2, 1);
    along[axis] = extent;
    sum = centres(extent, align_corners, options).reshape(along) * column(k) + sum;
  }
  return sum.to(theta.dtype());
}

}  // namespace adjoint
