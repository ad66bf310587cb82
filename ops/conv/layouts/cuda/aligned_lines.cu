#include <adjoint/core/cuda/launch.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/layouts/cuda/aligned_lines.h>
#include <adjoint/ops/conv/layouts/cuda/aligned_lines.cuh>

#include <cstdint>

namespace adjoint::cuda {
namespace {

void transpose(const LineCopy& m, const void* from, void* to, int device) {
  using product::kTransposeTile;
  const std::int64_t line_tiles = ceil_div(m.pitch, kTransposeTile);
  const auto tiles = static_cast<unsigned>(line_tiles * ceil_div(m.columns, kTransposeTile));
  launch(product::transpose_kernel,
         {dim3(tiles, static_cast<unsigned>(m.groups)), dim3(kTransposeTile, product::kTransposeRows)}, device,
         static_cast<const float*>(from), static_cast<float*>(to), m.width, m.columns, m.pitch, m.source_line,
         m.source_group, static_cast<int>(line_tiles));
}

/// Copies halves; floats are copied as two halves each.
void copy_lines(const LineCopy& m, std::int64_t element_bytes, const void* from, void* to, int device) {
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

void copy_aligned(const LineCopy& copy, std::int64_t element_bytes, const void* from, void* to, int device) {
  if (copy.source_line != 0) return transpose(copy, from, to, device);
  copy_lines(copy, element_bytes, from, to, device);
}

}  // namespace adjoint::cuda
