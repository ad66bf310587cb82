// Matrix products on the CPU. Sums over the inner axis are split: blocks of products are summed separately and added up
// in order within a slice of kSliceInner. Slices are separate products, which are then added up in pairs.
#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/quotients.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/fill.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/ops/matmul/cpu/product.h>
#include <adjoint/ops/matmul/cpu/widen.h>
#include <adjoint/ops/matmul/kernels.h>

#include <Eigen/Core>

#include <algorithm>
#include <cstdint>
#include <functional>

namespace adjoint::cpu {
namespace {

// The tiles of the result: each is one task, so the shape alone determines a task's computation.
constexpr std::int64_t kProductRows = 256;
constexpr std::int64_t kTileColumns = 512;
constexpr std::int64_t kTileDots = 32;
// A block is no longer than the sums that Eigen does not split by the size of the machine's caches. A vector's block is
// longer, because Eigen sums it in several lanes and memory is then read in longer runs.
constexpr std::int64_t kBlockInner = 384, kVectorBlockBytes = 8192;
constexpr std::int64_t kSliceInner = std::int64_t{1} << 16;

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

// Every slice's product: out (slices, B, M, N), or (B, M, N) for a single slice.
template <class T>
void multiply(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  const std::int64_t batch = a.tensor.size(0), rows = out.size(-2), columns = out.size(-1), inner = a.tensor.size(2);
  const bool is_vector = rows == 1 || columns == 1;
  const std::int64_t most = is_vector ? kVectorBlockBytes / std::int64_t{sizeof(T)} : kBlockInner;
  // Eigen computes a few dot products at a time; if they have several blocks, these are read one after the other.
  const bool are_dots = inner > most && (rows == 1 ? b.transposed : is_vector && !a.transposed);
  const std::int64_t most_rows = are_dots ? kTileDots : kProductRows,
                     most_columns = are_dots ? kTileDots : kTileColumns;
  const std::int64_t row_tiles = ceil_div(rows, most_rows), column_tiles = ceil_div(columns, most_columns);
  T* result = out.mutable_data<T>();
  const auto run = [&](std::int64_t task) {
    const std::int64_t product = task / (row_tiles * column_tiles), tile = task % (row_tiles * column_tiles);
    const std::int64_t index = product % batch, slice = product / batch * kSliceInner;
    const std::int64_t row = tile / column_tiles * most_rows, column = tile % column_tiles * most_columns;
    const std::int64_t tile_rows = std::min(most_rows, rows - row),
                       tile_columns = std::min(most_columns, columns - column);
    Strided<RowMajor<T>> to(result + (product * rows + row) * columns + column, tile_rows, tile_columns,
                            Eigen::OuterStride<>(columns));
    const std::int64_t end = std::min(inner, slice + kSliceInner);
    for (std::int64_t k = slice; k < end; k += most) {
      const std::int64_t block = std::min(most, end - k);
      with_block<T>(a, index, row, k, tile_rows, block, [&](const auto& left) {
        with_block<T>(b, index, k, column, block, tile_columns, [&](const auto& right) {
          if (k == slice) {
            to.noalias() = left * right;
          } else if (is_vector) {
            // Added directly, Eigen would add the block's products to the vector a few at a time.
            T sums[std::max(kProductRows, kTileColumns)];
            Strided<RowMajor<T>> apart(sums, tile_rows, tile_columns, Eigen::OuterStride<>(tile_columns));
            apart.noalias() = left * right;
            to += apart;
          } else {
            to.noalias() += left * right;
          }
        });
      });
    }
  };
  parallel_for(ceil_div(inner, kSliceInner) * batch * row_tiles * column_tiles, std::ref(run));
}

// out = the sum of the slices (slices, ...), which are overwritten.
template <class T>
void add_slices(Tensor& slices, Tensor& out) {
  const std::int64_t count = slices.size(0), numel = out.numel();
  T *data = slices.mutable_data<T>(), *result = out.mutable_data<T>();
  parallel_ranges(numel, std::max<std::int64_t>(1, kStridedGrain / count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t distance = 1; distance < count; distance *= 2) {
      for (std::int64_t slice = 0; slice + distance < count; slice += 2 * distance) {
        T* to = data + slice * numel;
        const T* from = to + distance * numel;
        for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    }
    std::copy(data + begin, data + end, result + begin);
  });
}

// product.h computes large products of dense matrices. Small products are faster without its packing.
constexpr std::int64_t kPackedExtent = 64, kPackedExtentOfABatch = 128;

bool is_dense(const MatrixBatch& batch) {
  const Tensor& tensor = batch.tensor;
  return batch.pitch == tensor.size(batch.transposed ? 1 : 2) &&
         (tensor.size(0) == 1 || batch.batch_stride == tensor.size(1) * tensor.size(2));
}

bool is_packed(const MatrixBatch& a, const MatrixBatch& b, const Tensor& out) {
  if (cpu_backend() != CpuBackend::kVector) return false;
  const std::int64_t least = std::min({out.size(1), out.size(2), a.tensor.size(2)});
  const std::int64_t wanted = out.size(0) == 1 ? kPackedExtent : kPackedExtentOfABatch;
  return least >= wanted && is_dense(a) && is_dense(b) && !(a.transposed && b.transposed);
}

// `length` rows or columns of one matrix from `begin` on, dense, copied if necessary.
MatrixBatch dense_slice(const Tensor& matrix, std::size_t axis, std::int64_t begin, std::int64_t length) {
  Shape shape = matrix.shape();
  shape[axis] = length;
  const std::int64_t offset = matrix.storage_offset() + begin * matrix.strides()[axis];
  const MatrixBatch slice = as_matrices(matrix.view_as(shape, matrix.strides(), offset));
  return is_dense(slice) ? slice : as_matrices(contiguous_copy(slice.tensor));
}

template <class T>
void multiply_matrices(std::span<const Tensor> in, Tensor& out) {
  const MatrixBatch a = as_matrices(in[0]), b = as_matrices(in[1]);
  const std::int64_t inner = in[0].size(2), count = ceil_div(inner, kSliceInner);
  const bool packed = is_packed(a, b, out);
  if (count == 1) return packed ? dense_product<T>(a, b, out) : multiply<T>(a, b, out);
  Tensor slices = make_tensor({{count, out.size(0), out.size(1), out.size(2)}, out.dtype()}, out.device());
  if (!packed) multiply<T>(a, b, slices);
  for (std::int64_t slice = 0; packed && slice < count; ++slice) {
    const std::int64_t begin = slice * kSliceInner, length = std::min(kSliceInner, inner - begin);
    Tensor product = slices.view_as(out.shape(), out.strides(), slice * out.numel());
    dense_product<T>(dense_slice(a.tensor, 2, begin, length), dense_slice(b.tensor, 1, begin, length), product);
  }
  add_slices<T>(slices, out);
}

}  // namespace

void matmul(std::span<const Tensor> in, Tensor& out, const NoAttr&) {
  if (in[0].size(2) == 0) return fill(out, 0.0);
  in_compute_type(in, out, []<class T>(std::span<const Tensor> operands, Tensor& result) {
    multiply_matrices<T>(operands, result);
  });
}

void linear(std::span<const Tensor> in, Tensor& out, const NoAttr&) {
  in_compute_type(in, out, []<class T>(std::span<const Tensor> operands, Tensor& result) {
    const Tensor bias = operands[2].is_contiguous() ? operands[2] : contiguous_copy(operands[2]);
    const std::int64_t rows = result.size(0), columns = result.size(1);
    Tensor product = result.view_as({1, rows, columns}, {rows * columns, columns, 1}, result.storage_offset());
    operands[0].size(1) == 0 ? fill(product, 0.0) : multiply_matrices<T>(linear_factors(operands), product);
    const T* const terms = bias.data<T>();
    T* const sums = result.mutable_data<T>();
    parallel_ranges(rows, std::max<std::int64_t>(1, kStridedGrain / columns),
                    [=](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row) {
                        for (std::int64_t i = 0; i < columns; ++i) sums[row * columns + i] += terms[i];
                      }
                    });
  });
}

}  // namespace adjoint::cpu
