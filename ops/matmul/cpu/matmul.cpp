#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/fill.h>
#include <adjoint/core/op.h>
#include <adjoint/core/parallel.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/matmul/kernels.h>

#include <Eigen/Core>

#include <algorithm>
#include <cstdint>
#include <utility>

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

// A large product is a convolution with one tap, whose kernels are made for the CPU's instruction set. Small ones and
// long batches are faster without its packing.
constexpr std::int64_t kConvolvedExtent = 64;

bool is_dense(const MatrixBatch& batch) { return batch.pitch == batch.tensor.size(batch.transposed ? 1 : 2); }

bool is_convolution(const MatrixBatch& a, const MatrixBatch& b, const Tensor& out) {
  const std::int64_t least = std::min({out.size(1), out.size(2), a.tensor.size(2)});
  return out.size(0) == 1 && least >= kConvolvedExtent && is_dense(a) && is_dense(b) && !(a.transposed && b.transposed);
}

// The memory of a dense matrix in a shape of the convolution's.
Tensor dense(const MatrixBatch& batch, const Shape& shape) {
  return batch.tensor.view_as(shape, contiguous_strides(shape), batch.tensor.storage_offset());
}

// a b = conv(b, a), a' b = conv_transpose(b, a), a b' = conv_weight(b, a), where the primed lie transposed.
void convolve(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  const std::int64_t rows = out.size(1), columns = out.size(2), inner = a.tensor.size(2);
  const std::int64_t positions = b.transposed ? inner : columns;
  ConvGeometry g{.rank = 1, .image_channels = inner, .feature_channels = rows};
  g.image = g.feature = {1, positions};
  if (b.transposed) {
    g.image_channels = columns;
    const Tensor operands[] = {dense(b, {1, columns, inner}), dense(a, {1, rows, inner})};
    conv_weight(operands, out, g);
  } else if (a.transposed) {
    std::swap(g.image_channels, g.feature_channels);
    const Tensor operands[] = {dense(b, {1, inner, columns}), dense(a, {inner, rows, 1})};
    conv_transpose(operands, out, g);
  } else {
    const Tensor operands[] = {dense(b, {1, inner, columns}), dense(a, {rows, inner, 1})};
    conv(operands, out, g);
  }
}

template <class T>
void multiply_matrices(std::span<const Tensor> in, Tensor& out) {
  const MatrixBatch a = as_matrices(in[0]), b = as_matrices(in[1]);
  is_convolution(a, b, out) ? convolve(a, b, out) : multiply<T>(a, b, out);
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
    multiply_matrices<double>(in, out);
  } else if (out.dtype() == kFloat32) {
    multiply_matrices<float>(in, out);
  } else {
    const Tensor wide[] = {converted(in[0], kFloat32), converted(in[1], kFloat32)};
    Tensor sums = make_tensor({out.shape(), kFloat32}, out.device());
    matmul(wide, sums, attr);
    copy_into(sums, out);
  }
}

}  // namespace adjoint::cpu
