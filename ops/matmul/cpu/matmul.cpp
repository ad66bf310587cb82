#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/op.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/matmul/kernels.h>

#include <Eigen/Core>

#include <algorithm>
#include <cstdint>

namespace adjoint::cpu {
namespace {

// Tiles of the result: one task each, so that what a task computes depends on the shape alone.
constexpr std::int64_t kTileRows = 256;
constexpr std::int64_t kTileColumns = 512;

template <class T>
using Strided = Eigen::Map<T, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using ColumnMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

// visit(rows x columns of `batch`'s matrix `index` from (row, column) on), with the matrix's own storage order.
template <class T, class Visit>
void with_block(const MatrixBatch& batch, std::int64_t index, std::int64_t row, std::int64_t column, std::int64_t rows,
                std::int64_t columns, Visit visit) {
  const T* data = batch.tensor.data<T>() + index * batch.batch_stride;
  if (batch.transposed) {
    visit(Strided<const ColumnMajor<T>>(data + column * batch.pitch + row, rows, columns,
                                        Eigen::OuterStride<>(batch.pitch)));
  } else {
    visit(Strided<const RowMajor<T>>(data + row * batch.pitch + column, rows, columns,
                                     Eigen::OuterStride<>(batch.pitch)));
  }
}

template <class T>
void multiply(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  const std::int64_t rows = out.size(1), columns = out.size(2), inner = a.tensor.size(2);
  const std::int64_t row_tiles = (rows + kTileRows - 1) / kTileRows,
                     column_tiles = (columns + kTileColumns - 1) / kTileColumns;
  T* result = out.mutable_data<T>();
  parallel_for(out.size(0) * row_tiles * column_tiles, [&](std::int64_t task) {
    const std::int64_t index = task / (row_tiles * column_tiles), tile = task % (row_tiles * column_tiles);
    const std::int64_t row = tile / column_tiles * kTileRows, column = tile % column_tiles * kTileColumns;
    const std::int64_t tile_rows = std::min(kTileRows, rows - row),
                       tile_columns = std::min(kTileColumns, columns - column);
    Strided<RowMajor<T>> to(result + (index * rows + row) * columns + column, tile_rows, tile_columns,
                            Eigen::OuterStride<>(columns));
    with_block<T>(a, index, row, 0, tile_rows, inner, [&](const auto& left) {
      with_block<T>(b, index, 0, column, inner, tile_columns, [&](const auto& right) { to.noalias() = left * right; });
    });
  });
}

Tensor converted(const Tensor& tensor, DType dtype) {
  Tensor result = make_tensor({tensor.shape(), dtype}, tensor.device());
  copy_into(tensor, result);
  return result;
}

}  // namespace

void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr& attr) {
  if (in[0].size(2) == 0) return fill(out, 0.0);
  if (out.dtype() == kFloat64) {
    multiply<double>(as_matrices(in[0]), as_matrices(in[1]), out);
  } else if (out.dtype() == kFloat32) {
    multiply<float>(as_matrices(in[0]), as_matrices(in[1]), out);
  } else {
    const Tensor wide[] = {converted(in[0], kFloat32), converted(in[1], kFloat32)};
    Tensor sums = make_tensor({out.shape(), kFloat32}, out.device());
    matmul(wide, sums, attr);
    copy_into(sums, out);
  }
}

}  // namespace adjoint::cpu
