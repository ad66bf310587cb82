// Picking elements by index, by device. x is seen as (outer, extent, inner), what is picked as (outer, count, inner):
// element (o, j, i) is x's (o, index(o, j, i), i). Operands are contiguous, indices int64; `out` is written whole but
// where it says otherwise. The CPU is never given an index outside [0, extent), but for kNowhere; CUDA reads NaN there
// (0 of integers) and writes nothing.
#pragma once

#include <adjoint/core/shape.h>
#include <adjoint/core/tensor.h>

#include <cstdint>
#include <limits>
#include <span>

namespace adjoint {

/// Names no element: 0 is read there, and nothing written.
inline constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::min();

struct IndexLayout {
  std::int64_t outer, extent, inner, count;
  std::int64_t repeat;  // so many places of `outer` after one another share a row of the index
  bool each;            // the index is (outer, count, inner), else (outer / repeat, count)
};

struct IndexAttr {
  IndexLayout layout;
  Shape whole, picked;
};

/// One axis more in the index of several: running * extent + index, a negative index counted from the end.
struct CombineAttr {
  std::int64_t extent;
};

/// Elements that one task, or one warp, counts.
inline constexpr std::int64_t kNonzeroChunk = 1024;

}  // namespace adjoint

namespace adjoint::cpu {
/// in: x, index; out: picked.
void take(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// in: picked, index, base (undefined: zeros); out: of x's shape, base and everything picked, added in order of j.
void accumulate(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// Writes `picked` into x where no two indices are equal.
void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr);
/// in: index; out: the same, but for kNowhere where a later j names the same element.
void last_of_equals(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr);
/// in: index, running (undefined: 0), of any strides; out: the index of one axis more.
void combine(std::span<const Tensor> in, Tensor& out, const CombineAttr& attr);
/// How many of each kNonzeroChunk flags (bool) are set.
void count_flags(const Tensor& flags, Tensor& counts);
/// flags' places (n, rank) as coordinates in `shape`; offsets: how many are set before each chunk.
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
