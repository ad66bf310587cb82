#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/ceil_div.h>
#include <adjoint/ops/conv/cuda/product.h>
#include <adjoint/ops/conv/cuda/product_copy.cuh>

#include <cstdint>

namespace adjoint::cuda {

void copy_lines(const ProductMatrix& matrix, const void* from, void* to, int device) {
  const int vector = product_copy_vector(matrix, from);
  const std::int64_t line_vectors = matrix.pitch / 8;
  const auto blocks = static_cast<unsigned>(ceil_div(matrix.lines * line_vectors, product::kCopyThreads));
  launch(vector == 4   ? product::copy_lines_kernel<4>
         : vector == 2 ? product::copy_lines_kernel<2>
                       : product::copy_lines_kernel<1>,
         {dim3(blocks), dim3(product::kCopyThreads)}, device, static_cast<const std::uint16_t*>(from),
         static_cast<std::uint16_t*>(to), matrix.lines, matrix.width,
         Divider(static_cast<std::uint32_t>(line_vectors)));
}

}  // namespace adjoint::cuda
