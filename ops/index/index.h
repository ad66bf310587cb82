// Picking elements by index, and putting them back.
//
// Indices are int64 or int32, on x's device. On the CPU one out of range is an Error. On CUDA, where a check would have
// to wait for the device, it reads NaN (0 of integers and bool), and what is written there is dropped; no memory
// outside is touched. Axes may be negative, counted from the end. Any dtype; differentiable in x and src, to any order,
// unless it says otherwise. Sums of elements that one index names are added in the order of their places, the same on
// every run. Throws Error for undefined tensors, several devices, dtypes that differ, and shapes that do not fit.
#pragma once

#include <adjoint/core/tensor.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

namespace adjoint {

/// Elements `index` of `axis`, one after the other: the result has as many as the 1-D (or scalar) index; a negative
/// index is out of range.
ADJOINT_API Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);

/// result[i][j][k] = x[i][index[i][j][k]][k] for axis 1 of 3, and so on: of index's shape, which has as many axes as x
/// and along every other axis no more elements. A negative index is out of range.
ADJOINT_API Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);

/// x, where result[i][index[i][j][k]][k] = src[i][j][k] for axis 1 of 3, and so on. Index has as many axes as x and
/// src, no more elements than src along any, and no more than x along any other than `axis`. Where indices are equal,
/// the last along `axis` counts, and has the gradient alone.
ADJOINT_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);
/// With one value, which x's dtype must hold.
ADJOINT_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, double value);
/// As scatter, where what is put is added to x: the adjoint of gather.
ADJOINT_API Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src);

/// Rows `indices` of `weight` (N, D...): indices (...) -> (..., D...). Row `padding_idx`, which may be negative, is
/// read like others and gets no gradient.
ADJOINT_API Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

/// Scales the rows of `weight` (N, D...) that `indices` (...) name and whose `norm_type`-norm is above `max_norm` down
/// to it, in place and never recorded, as PyTorch's embedding does before it looks up with a max_norm. Returns weight.
/// Throws Error for a negative max_norm and for a weight that is not floating point.
ADJOINT_API Tensor& embedding_renorm_(Tensor& weight, const Tensor& indices, double max_norm, double norm_type = 2.0);

/// (...) -> (..., num_classes), int64: 1 at the index along the last axis, else 0. -1 classes: one more than the
/// largest index, which waits for the device. On CUDA an index out of range has no 1. Not differentiable.
ADJOINT_API Tensor one_hot(const Tensor& indices, std::int64_t num_classes = -1);

/// (n, x.dim()), int64: the places of the n elements that are not 0 (NaN is not), in row-major order. Waits for the
/// device. Not differentiable.
ADJOINT_API Tensor nonzero(const Tensor& x);

/// The elements of x where `mask` (bool) holds, in row-major order, 1-D; they broadcast. Waits for the device.
ADJOINT_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/// Every step-th element from `start` on and before `end`, as Python's start:end:step; negative ends count from the
/// end.
struct Slice {
  std::optional<std::int64_t> start, end;
  std::int64_t step = 1;

  explicit Slice(std::optional<std::int64_t> first = {}, std::optional<std::int64_t> beyond = {}, std::int64_t by = 1)
      : start(first), end(beyond), step(by) {}
};
/// As many whole axes as the other indices leave; Python's `...`.
struct Ellipsis {};
inline constexpr Ellipsis kEllipsis;
/// An axis of one element; Python's None.
struct NewAxis {};
inline constexpr NewAxis kNewAxis;

/// One of what stands between the brackets of Python's x[...].
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
  /// Of an integer, its place is the start.
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  Slice slice_{};
  Tensor tensor_;
};

/// x[indices], by PyTorch's rules: index(x, {0, Slice(1, {}, 2), kEllipsis, kNewAxis, mask}). Integers (and integer
/// tensors without axes) take one element and drop the axis, slices keep it: what has no other tensors is a view.
/// Tensors of several axes broadcast together, and their shape stands in the place of those axes where they follow each
/// other, else in front; a mask counts as the places where it holds, an index for each of its axes, and waits for the
/// device. Negative indices count from the end. Throws Error for more indices than axes, several ellipses, a step below
/// 1, and a mask that has not the shape of its axes.
ADJOINT_API Tensor index(const Tensor& x, const std::vector<Index>& indices);

/// x[indices] = value, in place and never recorded (see Tensor): `value` broadcasts, and is converted to x's dtype and
/// device. Where indices are equal, the last counts. Returns x.
ADJOINT_API Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, const Tensor& value);
/// With one value, which x's dtype must hold.
ADJOINT_API Tensor& index_put_(Tensor& x, const std::vector<Index>& indices, double value);

}  // namespace adjoint
