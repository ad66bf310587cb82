// Picking elements by index, by device. x is seen as (outer, extent, inner), the picked tensor as (outer, count,
// inner): element (o, j, i) is x's (o, index(o, j, i), i). Operands are contiguous, indices int64; `out` is written
// completely unless stated otherwise. The CPU never gets an index outside [0, extent) except kNowhere; CUDA reads NaN
// there (0 for integers) and writes nothing.
#pragma once

#include <adjoint/core/tensor/shape.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <limits>
#include <span>

namespace adjoint {

/// Names no element: it reads 0, and writes nothing.
inline constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::min();

struct IndexLayout {
  std::int64_t outer, extent, inner, count;
  std::int64_t repeat;  // this many consecutive places of `outer` share a row of the index
  bool each;            // the index is (outer, count, inner), else (outer / repeat, count)
};

struct IndexAttr {
  IndexLayout layout;
  Shape whole, picked;
};

/// Adds an axis to the combined index of several: running * extent + index, a negative index counted from the end.
struct CombineAttr {
  std::int64_t extent;
};

/// The number of elements that one task, or one warp, counts.
inline constexpr std::int64_t kNonzeroChunk = 1024;

}  // namespace adjoint

namespace adjoint::cpu {
/// in: x, index; out: picked.
void take(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// in: picked, index, base (undefined: zeros); out: of x's shape, base plus all of picked, added in order of j.
void accumulate(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// Writes `picked` into x; no two indices are equal.
void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr);
/// in: index; out: the same, with kNowhere in place of an index if a later j names the same element.
void last_of_equals(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// in: index, running (undefined: 0), of any strides; out: the index with one more axis.
void combine(std::span<const Tensor> in, Tensor& out, const CombineAttr& attr);
/// The number of flags (bool) that are set in each kNonzeroChunk.
void count_flags(const Tensor& flags, Tensor& counts);
/// flags' places (n, rank) as coordinates in `shape`; offsets: the number of set flags before each chunk.
void write_places(const Tensor& flags, const Tensor& offsets, const Shape& shape, Tensor& places);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void take(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
void accumulate(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr);
void last_of_equals(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
void combine(std::span<const Tensor> in, Tensor& out, const CombineAttr& attr);
void count_flags(const Tensor& flags, Tensor& counts);
void write_places(const Tensor& flags, const Tensor& offsets, const Shape& shape, Tensor& places);
}  // namespace adjoint::cuda
