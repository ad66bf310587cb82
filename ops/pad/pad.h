// Padding: with a value, or with elements of the tensor itself.
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint {

/// The values outside a tensor a b c d: a constant, or
enum class PadMode : std::uint8_t {
  kConstant,
  kReflect,    // c b | a b c d | c b; less than the extent
  kReplicate,  // a a | a b c d | d d
  kCircular,   // c d | a b c d | a b; at most the extent
};

/// "constant" or "zeros", "reflect", "replicate", "circular".
ADJOINT_API PadMode enumerator(std::string_view name, PadMode);

/// Pads `x`. `padding` holds a pair (before, after) for each axis, the last axis first, as in torch.nn.functional.pad:
/// {left, right, top, bottom}. A negative amount cuts, before anything is padded. Any dtype. Differentiable to any
/// order: the adjoint sums each element's copies, in the order of the result. Throws Error for half a pair, more pairs
/// than axes, cuts beyond an axis's extent, more padding than the mode can provide, a value with a mode other than
/// kConstant, and a value that x's dtype cannot hold, as Tensor::full does.
ADJOINT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, Named<PadMode> mode,
                       double value = 0.0);
/// Pads with `value`.
ADJOINT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, double value = 0.0);

/// The adjoint of pad(x, padding, mode), for an x of `shape`: x's gradient from that of the result. Linear in `padded`
/// (floating point), and differentiable to any order. Throws Error as pad does, and if pad's result would not have
/// padded's shape.
ADJOINT_API Tensor pad_adjoint(const Tensor& padded, const Shape& shape, const std::vector<std::int64_t>& padding,
                               Named<PadMode> mode = PadMode::kConstant);

}  // namespace adjoint
