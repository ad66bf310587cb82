// Padding: with a value, or with elements of the tensor itself.
#pragma once

#include <adjoint/core/tensor.h>

#include <cstdint>
#include <vector>

namespace adjoint {

/// What stands outside a tensor a b c d: a value, or
enum class PadMode : std::uint8_t {
  kConstant,
  kReflect,    // c b | a b c d | c b; less than the extent
  kReplicate,  // a a | a b c d | d d
  kCircular,   // c d | a b c d | a b; the extent at most
};

/// `x` with more around it. `padding` holds a pair (before, after) for each axis, the last axis first, as
/// torch.nn.functional.pad takes it: {left, right, top, bottom}. A negative amount cuts, before anything is padded. Any
/// dtype. Differentiable to any order: the adjoint sums, in the order of the result, what each element was copied to.
/// Throws Error for half a pair, more pairs than axes, cuts beyond an axis's extent, more padding than the mode has
/// elements for, a value beside another mode than kConstant, and a value that x's dtype cannot hold, as Tensor::full
/// does.
ADJOINT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, PadMode mode, double value = 0.0);
/// With `value` around it.
ADJOINT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value = 0.0);

/// The adjoint of pad(x, padding, mode), for an x of `shape`: from the gradient of its result that of x. Linear in
/// `padded` (floating point), and differentiable to any order. Throws Error for what pad refuses, and where pad's
/// result would not be of padded's shape.
ADJOINT_API Tensor pad_adjoint(const Tensor& padded, const Shape& shape, const std::vector<std::int64_t>& padding,
                               PadMode mode = PadMode::kConstant);

}  // namespace adjoint
