// fold on the CPU: a task computes a row of an image, to which each element of the kernel adds its blocks.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/quotients.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/fold/kernels.h>

#include <algorithm>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;  // additions, enough to outweigh handing a task to another thread

template <class T>
void fold_row(const FoldAttr& attr, const T* plane, std::int64_t y, compute_t<T>* sums) {
  const FoldAxis &h = attr.h, &w = attr.w;
  for (std::int64_t ky = 0; ky < h.kernel; ++ky) {
    const std::int64_t row = h.block_over(y, ky);
    if (row < 0) continue;
    for (std::int64_t kx = 0; kx < w.kernel; ++kx) {
      const T* const blocks = plane + ((ky * w.kernel + kx) * h.out + row) * w.out;
      const std::int64_t shift = kx * w.dilation - w.padding;  // block b's element is over pixel b stride + shift
      const std::int64_t first = std::max<std::int64_t>(0, ceil_div(-shift, w.stride));
      const std::int64_t beyond = std::min(w.out, ceil_div(w.size - shift, w.stride));
      for (std::int64_t b = first; b < beyond; ++b) {
        sums[b * w.stride + shift] += static_cast<compute_t<T>>(blocks[b]);
      }
    }
  }
}

}  // namespace

void fold(std::span<const Tensor> in, Tensor& out, const FoldAttr& attr) {
  const FoldAxis &h = attr.h, &w = attr.w;
  const std::int64_t plane = h.kernel * w.kernel * h.out * w.out;
  const std::int64_t additions = std::max<std::int64_t>(1, w.size * ceil_div(h.kernel, h.stride) * w.kernel);
  visit_floating(out.dtype(), [&]<class T>() {
    const T* const columns = in[0].data<T>();
    T* const image = out.mutable_data<T>();
    parallel_ranges(attr.batch * attr.channels * h.size, std::max<std::int64_t>(1, kGrain / additions),
                    [&](std::int64_t begin, std::int64_t end) {
                      std::vector<compute_t<T>> sums(static_cast<std::size_t>(w.size));
                      for (std::int64_t row = begin; row < end; ++row) {
                        std::fill(sums.begin(), sums.end(), compute_t<T>{});
                        fold_row(attr, columns + row / h.size * plane, row % h.size, sums.data());
                        std::transform(sums.begin(), sums.end(), image + row * w.size,
                                       [](compute_t<T> sum) { return convert<T>(sum); });
                      }
                    });
  });
}

}  // namespace adjoint::cpu
