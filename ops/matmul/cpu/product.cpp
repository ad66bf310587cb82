#include <adjoint/ops/matmul/cpu/product.h>

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/quotients.h>
#include <adjoint/ops/matmul/cpu/dispatch.h>
#include <adjoint/ops/matmul/cpu/outer_sums.h>

#include <algorithm>
#include <functional>

namespace adjoint::cpu {
namespace {

// `matrices` (groups, rows, inner) as blocks, each (inner, rows of the block).
template <class T>
Buffer pack(const MatrixBatch& matrices, const ProductShape& shape) {
  constexpr std::int64_t kStrip = 8;  // inner columns of a block that are packed together, in the first-level cache
  const std::int64_t row_step = matrices.transposed ? 1 : shape.inner,
                     inner_step = matrices.transposed ? shape.rows : 1;
  const std::int64_t elements = shape.groups * shape.rows * shape.inner, blocks = shape.groups * shape.blocks;
  const T* data = matrices.tensor.data<T>();
  Buffer packed(elements * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t grain = std::max<std::int64_t>(1, (blocks << 14) / elements);
  parallel_ranges(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t group = task / shape.blocks * shape.rows * shape.inner, block = task % shape.blocks;
      const std::int64_t row = block * shape.rows / shape.blocks, rows = (block + 1) * shape.rows / shape.blocks - row;
      const T* from = data + group + row * row_step;
      T* to = packed.as<T>() + group + row * shape.inner;
      for (std::int64_t first = 0; first < shape.inner; first += kStrip) {
        const std::int64_t last = std::min(first + kStrip, shape.inner);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t k = first; k < last; ++k) to[k * rows + i] = from[i * row_step + k * inner_step];
        }
      }
    }
  });
  return packed;
}

template <class T>
void tiled_product(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  const ProductKernels<T>& kernel = product_kernels<T>();
  const std::int64_t rows = out.size(1);
  const ProductShape shape{.groups = out.size(0),
                           .positions = out.size(2),
                           .inner = a.tensor.size(2),
                           .rows = rows,
                           .blocks = ceil_div(rows, kernel.block)};
  const Buffer packed = pack<T>(a, shape);
  const auto tiles = product_tiles(shape, kernel.panel);
  const T* right = b.tensor.data<T>();
  T* result = out.mutable_data<T>();
  const TaskScratch<T> scratch(kTileScratch);
  const auto run = [&](std::int64_t i) {
    const ProductTile& tile = tiles[static_cast<std::size_t>(i)];
    kernel.matrix_tile(shape, tile, right, packed.as<T>() + tile.group * shape.rows * shape.inner, result,
                       scratch.data());
  };
  parallel_for(static_cast<std::int64_t>(tiles.size()), std::ref(run));
}

// b is transposed: both operands' rows run along the inner axis.
template <class T>
void summed_product(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  const std::int64_t inner = a.tensor.size(2);
  OuterSums<T> sums(out.size(0), 1, {b.tensor.data<T>(), out.size(2), 1, 1, inner},
                    {a.tensor.data<T>(), out.size(1), 1, 1, inner});
  ScratchVector<VolumeBox> chunks;
  for (std::int64_t begin = 0, step = sums.chunk_positions(); begin < inner; begin += step) {
    chunks.push_back({{0, 1}, {0, 1}, {0, 1}, {begin, std::min(begin + step, inner)}});
  }
  sums.add(
      chunks, [](const VolumeBox& chunk) { return chunk; },
      [](const VolumeBox& chunk, std::int64_t) {
        const PairedPositions::Side side{{0, 0, chunk.w.begin}, {1, 1, 1}};
        return PairedPositions{chunk.n, 1, 1, chunk.w.size(), side, side};
      });
  sums.write(out.mutable_data<T>());
}

}  // namespace

ScratchVector<ProductTile> product_tiles(const ProductShape& shape, std::int64_t panel, std::int64_t products) {
  constexpr std::int64_t kEnough = 16;  // of all products together
  const std::int64_t enough = ceil_div(kEnough, products);
  ScratchVector<ProductTile> result;
  if (shape.positions == 0 || shape.rows == 0) return result;
  // Positions are split before rows, because every tile fills its own panels.
  const std::int64_t panels = ceil_div(shape.positions, panel);
  std::int64_t row_tiles = ceil_div(shape.rows, kTileRows);
  const std::int64_t wanted = ceil_div(enough, shape.groups * row_tiles);
  const std::int64_t tiles = std::min(panels, std::max(ceil_div(shape.positions, kTilePositions), wanted));
  row_tiles = std::min(shape.blocks, std::max(row_tiles, ceil_div(enough, shape.groups * tiles) / 2));
  result.reserve(static_cast<std::size_t>(shape.groups * tiles * row_tiles));
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = tile * panels / tiles * panel;
      const std::int64_t end = std::min((tile + 1) * panels / tiles * panel, shape.positions);
      for (std::int64_t row_tile = 0; row_tile < row_tiles; ++row_tile) {
        result.push_back(
            {group, begin, end, row_tile * shape.blocks / row_tiles, (row_tile + 1) * shape.blocks / row_tiles});
      }
    }
  }
  return result;
}

template <class T>
void dense_product(const MatrixBatch& a, const MatrixBatch& b, Tensor& out) {
  if (b.transposed) {
    summed_product<T>(a, b, out);
  } else {
    tiled_product<T>(a, b, out);
  }
}

template void dense_product<float>(const MatrixBatch&, const MatrixBatch&, Tensor&);
template void dense_product<double>(const MatrixBatch&, const MatrixBatch&, Tensor&);

}  // namespace adjoint::cpu
