// fold on CUDA: each thread adds up the blocks over a pixel, in a fixed order.
#include <adjoint/core/cuda/launch.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/fold/kernels.h>
#include <adjoint/core/cuda/elementwise.cuh>

namespace adjoint::cuda {
namespace {

template <class T>
__global__ void fold_pixels(FoldAttr attr, std::int64_t count, const T* __restrict__ columns, T* __restrict__ image) {
  using A = compute_t<T>;
  const FoldAxis &h = attr.h, &w = attr.w;
  const std::int64_t step = std::int64_t{gridDim.x} * detail::kElementwiseThreads;
  for (std::int64_t e = std::int64_t{blockIdx.x} * detail::kElementwiseThreads + threadIdx.x; e < count; e += step) {
    const std::int64_t x = e % w.size, y = e / w.size % h.size, plane = e / w.size / h.size;
    A sum{};
    for (std::int64_t ky = 0; ky < h.kernel; ++ky) {
      const std::int64_t row = h.block_over(y, ky);
      if (row < 0) continue;
      for (std::int64_t kx = 0; kx < w.kernel; ++kx) {
        const std::int64_t column = w.block_over(x, kx);
        if (column < 0) continue;
        sum += static_cast<A>(columns[(((plane * h.kernel + ky) * w.kernel + kx) * h.out + row) * w.out + column]);
      }
    }
    image[e] = convert<T>(sum);
  }
}

}  // namespace

void fold(std::span<const Tensor> in, Tensor& out, const FoldAttr& attr) {
  const int device = out.device().index;
  visit_floating(out.dtype(), [&]<class T>() {
    launch(fold_pixels<T>, detail::elementwise_geometry(out.numel(), device), device, attr, out.numel(),
           in[0].data<T>(), out.mutable_data<T>());
  });
}

}  // namespace adjoint::cuda
