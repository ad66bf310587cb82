// Sorting, and the operators that rest on it.
//
// Every order is the same on every device and in every run: equal elements stay in the order in which they were, -0
// equals 0, and NaN is above infinity. An axis may be negative, counted from the end; a tensor without axes counts as
// one with one element. Indices are int64. Any dtype, and differentiable to any order in the values, unless documented
// otherwise: a gradient goes to the selected element. Throws Error for undefined tensors and for an axis that x does
// not have.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace adjoint {

/// x's elements along `axis` in ascending order, or descending (NaN then comes first), and the original index of each.
ADJOINT_API std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
/// The places that sort returns, without the elements. Not differentiable.
ADJOINT_API Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);

/// The k largest elements along `axis` in descending order, or the k least in ascending order, and their indices.
/// Throws Error for a k that is negative or above the extent.
ADJOINT_API std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1,
                                           bool largest = true);

/// The k-th least element along `axis`, counted from 1, and its index. Throws Error for a k outside [1, extent].
ADJOINT_API std::pair<Tensor, Tensor> kthvalue(const Tensor& x, std::int64_t k, std::int64_t axis = -1,
                                               bool keepdim = false);

/// The middle element along `axis`, the lower of two for an even number, and its index; the first NaN if the row has
/// NaN. Throws Error for an axis without elements.
ADJOINT_API std::pair<Tensor, Tensor> median(const Tensor& x, std::int64_t axis, bool keepdim = false);
/// The median of all elements; equal ones share the gradient evenly. Waits for the device. Throws Error if x is empty.
ADJOINT_API Tensor median(const Tensor& x);

struct QuantileOptions {
  /// Without an axis, the quantile is that of all elements.
  std::optional<std::int64_t> axis = {};
  bool keepdim = false;
  /// Between two elements: "linear", "lower", "higher", "nearest" (of equally near ones the one of even index) or
  /// "midpoint".
  std::string_view interpolation = "linear";
};
/// The value below which a share q, in [0, 1], of the elements lies, interpolated between its two neighbours; NaN if an
/// element is NaN. Floating point only.
/// Throws Error for other q and interpolations, and for no elements.
ADJOINT_API Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
/// The quantile for each element of q (Q), floating point, along a new first axis: (Q, ...). Waits for the device.
ADJOINT_API Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});

/// For each element of `values` (..., M), the number of elements in its row of the ascending `sorted` (..., N) that are
/// below it, or not above it with `right`: the index that keeps the row in order. (..., M), int64. A `sorted` of one
/// axis is the row of all values, of any shape. Both are converted to a common dtype. Not differentiable. Throws Error
/// for axes before the last that differ.
ADJOINT_API Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

/// The distinct elements of x in ascending order, 1-D; for each element of x its index among them (x's shape); and the
/// count of each in x. Each NaN differs from all others. With an axis, the first result has the distinct slices of x
/// along it, in the order of their elements, and the other two are 1-D. Not differentiable. Waits for the device.
ADJOINT_API std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, std::optional<std::int64_t> axis = {});

}  // namespace adjoint
