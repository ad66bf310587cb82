#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/layouts/cuda/aligned_lines.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

void transpose(const ProductMatrix& m, const void* from, void* to, int device) {
  using product::kTransposeTile;
  const std::int64_t columns = m.extents[1], line_tiles = ceil_div(m.pitch, kTransposeTile);
  const auto tiles = static_cast<unsigned>(line_tiles * ceil_div(columns, kTransposeTile));
  launch(product::transpose_kernel,
         {dim3(tiles, static_cast<unsigned>(m.extents[2])), dim3(kTransposeTile, product::kTransposeRows)}, device,
         static_cast<const float*>(from), static_cast<float*>(to), m.width, columns, m.pitch, m.source_line,
         m.source_group, static_cast<int>(line_tiles));
}

/// Halves, or floats as twice as many.
void copy_lines(const ProductMatrix& m, std::int64_t element_bytes, const void* from, void* to, int device) {
  const std::int64_t width = m.width * element_bytes / 2, line_vectors = m.pitch * element_bytes / 16;
  const int vector = product::copy_vector(from, width);
  const auto blocks = static_cast<unsigned>(ceil_div(m.lines * line_vectors, product::kCopyThreads));
  launch(vector == 4   ? product::copy_lines_kernel<4>
         : vector == 2 ? product::copy_lines_kernel<2>
                       : product::copy_lines_kernel<1>,
         {dim3(blocks), dim3(product::kCopyThreads)}, device, static_cast<const std::uint16_t*>(from),
         static_cast<std::uint16_t*>(to), m.lines, width, Divider(static_cast<std::uint32_t>(line_vectors)));
}

}  // namespace

void copy_factor(const ProductMatrix& matrix, std::int64_t element_bytes, const void* from, void* to, int device) {
  if (matrix.source_line != 0) return transpose(matrix, from, to, device);
  copy_lines(matrix, element_bytes, from, to, device);
}

}  // namespace adjoint::cuda
