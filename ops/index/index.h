// Picking elements by index, and putting them back.
//
// Indices are int64 or int32, on x's device. On the CPU an index out of range is an Error. On CUDA, where a check would
// wait for the device, such an index reads NaN (0 for integers and bool), and writes to it are dropped; no memory
// outside is touched. Axes may be negative, counted from the end. Any dtype; differentiable in x and src, to any order,
// unless stated otherwise. Elements that share an index are summed in the order of their places, the same on every run.
// Throws Error for undefined tensors, several devices, dtypes that differ, and shapes that do not fit.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint {

/// Elements `index` of `axis`, one after the other. The result has one for each element of the 1-D (or scalar) index; a
/// negative index is out of range.
ADJOINT_API Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);

/// result[i][j][k] = x[i][index[i][j][k]][k] for axis 1 of 3, and so on. The result has index's shape. Index has as
/// many axes as x, and along every axis but `axis` no more elements. A negative index is out of range.
ADJOINT_API Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);

/// x with result[i][index[i][j][k]][k] = src[i][j][k] for axis 1 of 3, and so on. Index has as many axes as x and src,
/// no more elements than src along any axis, and no more than x along any axis but `axis`. Of equal indices the last
/// along `axis` counts, and only it has a gradient.
ADJOINT_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// scatter with one value, which x's dtype must hold.
ADJOINT_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, double value);
/// Like scatter, but adds src to x: the adjoint of gather.
ADJOINT_API Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);

/// As gather, with x and index broadcast along all axes but `axis`; without an axis, on the elements of both in
/// row-major order.
ADJOINT_API Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> axis = {});

/// x, where alpha src[i][j][k] is added to result[i][index[j]][k] for axis 1 of 3, and so on: src is x but for as many
/// elements along `axis` as the 1-D (or scalar) index has. Throws Error if x's dtype cannot hold alpha.
ADJOINT_API Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                             const Scalar& alpha = 1);

/// Rows `indices` of `weight` (N, D...): indices (...) -> (..., D...). Row `padding_idx`, which may be negative, is
/// read like the others and gets no gradient.
ADJOINT_API Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

/// Scales the rows of `weight` (N, D...) named by `indices` (...) whose `norm_type`-norm exceeds `max_norm` down to it,
/// in place and never recorded, as PyTorch's embedding with a max_norm does before it looks up. Returns weight. Throws
/// Error for a negative max_norm and for a weight that is not floating point.
ADJOINT_API Tensor& embedding_renorm_(Tensor& weight, const Tensor& indices, double max_norm, double norm_type = 2.0);

/// (...) -> (..., num_classes), int64: 1 at the index along the last axis, else 0. With -1 classes, their number is one
/// more than the largest index, which waits for the device. On CUDA an index out of range sets no 1. Not
/// differentiable.
ADJOINT_API Tensor one_hot(const Tensor& indices, std::int64_t num_classes = -1);

/// (n, x.dim()), int64: the places of the n elements that are not 0 (NaN counts as not 0), in row-major order. Waits
/// for the device. Not differentiable.
ADJOINT_API Tensor nonzero(const Tensor& x);

/// The elements of x where `mask` (bool) holds, in row-major order, 1-D; they broadcast. Waits for the device.
ADJOINT_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/// Every step-th element from `start` up to but not including `end`, like Python's start:end:step; negative ends count
/// from the end.
struct Slice {
  std::optional<std::int64_t> start, end;
  std::int64_t step = 1;

  explicit Slice(std::optional<std::int64_t> first = {}, std::optional<std::int64_t> beyond = {}, std::int64_t by = 1)
      : start(first), end(beyond), step(by) {}
};
/// All whole axes that the other indices leave; Python's `...`.
struct Ellipsis {};
inline constexpr Ellipsis kEllipsis;
/// An axis of one element; Python's None.
struct NewAxis {};
inline constexpr NewAxis kNewAxis;

/// One entry between the brackets of Python's x[...].
class Index {
 public:
  enum class Kind : std::uint8_t { kInteger, kSlice, kRest, kNew, kTensor };

  template <std::integral T>
  requires(!std::same_as<T, bool>) Index(T at) : kind_(Kind::kInteger), slice_(static_cast<std::int64_t>(at)) {}
  Index(const Slice& slice) : kind_(Kind::kSlice), slice_(slice) {}
  Index(Ellipsis) : kind_(Kind::kRest) {}
  Index(NewAxis) : kind_(Kind::kNew) {}
  /// int64 or int32: indices; bool: a mask over as many axes as it has.
  Index(const Tensor& tensor) : kind_(Kind::kTensor), tensor_(tensor) {}

  Kind kind() const { return kind_; }
  /// For an integer, `start` is its place.
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  Slice slice_{};
  Tensor tensor_;
};

/// x[indices], by PyTorch's rules: index(x, {0, Slice(1, {}, 2), kEllipsis, kNewAxis, mask}). Integers (and integer
/// tensors without axes) select one element and drop the axis, and slices keep it: without other tensors the result is
/// a view. Tensors of several axes broadcast together; their shape replaces those axes if they are adjacent, else comes
/// first. A mask counts as the places where it holds, one index per axis, and waits for the device. Negative indices
/// count from the end. Throws Error for more indices than axes, several ellipses, a step below 1, and a mask whose
/// shape differs from that of its axes.
ADJOINT_API Tensor index(const Tensor& x, const std::vector<Index>& indices);

/// x[indices] = value, in place and never recorded (see Tensor): `value` broadcasts, and is converted to x's dtype and
/// device. Of equal indices the last counts; with `accumulate`, every value is added to the element, and x must not be
/// bool. Returns x.
ADJOINT_API Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, const Tensor& value,
                               bool accumulate = false);
/// index_put_ with one value, which x's dtype must hold.
ADJOINT_API Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, double value, bool accumulate = false);

}  // namespace adjoint
