// Functions besides Tensor's view members (reshape, permute, narrow, expand, ...), whose gradients they complete, and
// others that only rearrange elements. Any dtype; differentiable, to any order, unless stated otherwise. Axes may be
// negative, counted from the end. Throws Error for undefined tensors and for an axis that x does not have.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace adjoint {

/// Every step-th element of `axis` from `start` up to but not including `end`, like Python's x[start:end:step]:
/// negative ends count from the end, ends beyond the axis are clamped to it, and an omitted end is the axis's own. A
/// view. Throws Error for a step below 1.
ADJOINT_API Tensor slice(const Tensor& x, std::int64_t axis, std::optional<std::int64_t> start = {},
                         std::optional<std::int64_t> end = {}, std::int64_t step = 1);

/// Zeros with `input` placed inside: along `axis` the result has `extent` elements, and input's are at `start`, `start`
/// + `step`, and so on. The adjoint of slice and narrow: each is the other's gradient. Any dtype. Throws Error for an
/// axis outside the rank, for a step below 1, and if the input does not fit into [0, extent).
ADJOINT_API Tensor embed(const Tensor& input, std::int64_t axis, std::int64_t start, std::int64_t extent,
                         std::int64_t step = 1);

/// `input` summed over the axes along which `shape` broadcasts to its shape: the adjoint of input.expand(...). Throws
/// Error if `shape` does not broadcast to input's.
ADJOINT_API Tensor sum_to(const Tensor& input, const Shape& shape);

/// Views of x, `split_size` elements of `axis` each; the last one has the remainder. An axis without elements gives one
/// part. Throws Error for a negative size, for a size of 0 if there are elements, and, like chunk and unbind, for more
/// than 2^20 parts.
ADJOINT_API std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t axis = 0);
/// Views of x of these extents, one after the other. Throws Error if they do not add up to the axis's extent.
ADJOINT_API std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& split_sizes,
                                      std::int64_t axis = 0);
/// At most `chunks` views of equal extent, rounded up; the last one has the remainder. An axis without elements gives
/// `chunks` empty ones. Throws Error for chunks below 1.
ADJOINT_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis = 0);
/// A view of every element of `axis`, without that axis.
ADJOINT_API std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);

/// x repeated repeats[i] times along axis i: a copy. More repeats than axes add axes in front. Throws Error for fewer,
/// and for a negative one.
ADJOINT_API Tensor repeat(const Tensor& x, const Dims& repeats);

/// A copy with each element of `axis` `repeats` times in a row; without an axis, of all elements in row-major order.
/// Throws Error for a negative number.
ADJOINT_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis = {});
/// Element i repeats[i] times: repeats (extent) or (1), int64 or int32, whose values the call waits for. Throws Error,
/// too, for other shapes and dtypes.
ADJOINT_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis = {});

/// Of vectors (or scalars) of n1 to nk elements, one tensor (n1, ..., nk) each, which equals element i of the vector
/// wherever the index along its axis is i: views. With "xy" in place of "ij" the first two axes change places. Throws
/// Error for no tensor, several dtypes or devices, tensors of more axes, and other names.
ADJOINT_API std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing = "ij");

/// x with the order of elements along `axes` reversed: a copy. Throws Error for an axis that is named twice.
ADJOINT_API Tensor flip(const Tensor& x, const Dims& axes);

/// x with `axis` split into several of these extents, of which one may be -1: a view if strides allow. Throws Error if
/// their product is not the axis's extent.
ADJOINT_API Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes);

/// x with axis source[i] moved to place destination[i] and the others left in order: a view. Throws Error unless both
/// name as many axes, each once.
ADJOINT_API Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);

}  // namespace adjoint
