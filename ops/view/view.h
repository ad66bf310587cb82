// Functions beside Tensor's view members (reshape, permute, narrow, expand, ...), whose gradients they complete, and
// others that only rearrange elements. Any dtype; differentiable, to any order, unless it says otherwise. Axes may be
// negative, counted from the end. Throws Error for undefined tensors and for an axis that x does not have.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint {

/// Every step-th element of `axis` from `start` on and before `end`, as Python's x[start:end:step]: negative ends count
/// from the end, those beyond the axis are cut to it, and none is the axis's own. A view. Throws Error for a step
/// below 1.
ADJOINT_API Tensor slice(const Tensor& x, std::int64_t axis, std::optional<std::int64_t> start = {},
                         std::optional<std::int64_t> end = {}, std::int64_t step = 1);

/// Zeros with `input` placed inside: along `axis` the result has `extent` elements, and input's stand from `start` on,
/// `step` apart. The adjoint of slice and narrow: each is the other's gradient.
/// Any dtype. Throws Error for an axis outside the rank, for a step below 1, and where the input does not fit into
/// [0, extent).
ADJOINT_API Tensor embed(const Tensor& input, std::int64_t axis, std::int64_t start, std::int64_t extent,
                         std::int64_t step = 1);

/// `input` summed over the axes along which `shape` broadcasts to its shape: the adjoint of input.expand(...).
/// Throws Error where `shape` does not broadcast to input's.
ADJOINT_API Tensor sum_to(const Tensor& input, const Shape& shape);

/// Views of x, `split_size` elements of `axis` each; the last one has what is left. An axis without elements gives one
/// part. Throws Error for a size that is negative, for 0 where there are elements, and, as chunk and unbind do, for
/// more than 2^20 parts.
ADJOINT_API std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t axis = 0);
/// Views of x of these extents, one after the other. Throws Error where they do not add up to the axis's.
ADJOINT_API std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& split_sizes,
                                      std::int64_t axis = 0);
/// At most `chunks` views of equal extent, rounded up; the last one has what is left. An axis without
/// elements gives `chunks` empty ones. Throws Error for chunks below 1.
ADJOINT_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis = 0);
/// A view of every element of `axis`, without that axis.
ADJOINT_API std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);

/// x beside itself, repeats[i] times along axis i: a copy. More repeats than axes add axes in front. Throws Error for
/// fewer, and for a negative one.
ADJOINT_API Tensor repeat(const Tensor& x, const Dims& repeats);

/// x with the order of elements along `axes` reversed: a copy. Throws Error for an axis that is named twice.
ADJOINT_API Tensor flip(const Tensor& x, const Dims& axes);

/// x with `axis` split into several of these extents, of which one may be -1: a view where strides allow. Throws Error
/// where they do not multiply to the axis's.
ADJOINT_API Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes);

/// x with axis source[i] moved to place destination[i] and the others left in order: a view. Throws Error unless both
/// name as many axes, each once.
ADJOINT_API Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);

}  // namespace adjoint
