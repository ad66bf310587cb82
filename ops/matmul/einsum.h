// Sums of products by the names of axes.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <string_view>
#include <vector>

namespace adjoint {

/// Einstein's summation: einsum("bik,bkj->bij", {a, b}). A letter names an axis of an operand. Axes of one name share
/// an index, and names that are missing behind the arrow are summed over. A name that an operand has twice selects its
/// diagonal. Without an arrow the result has the names that occur once, in alphabetical order, capitals first. "..."
/// means further axes, which broadcast; without an arrow they come first. An extent of 1 broadcasts too. Operands are
/// multiplied from left to right, two at a time, by matmul. Any dtype but bool, which all operands share;
/// differentiable to any order. Throws Error for other characters, for a term that names more or fewer axes than its
/// operand has, for extents that differ, for names of the result that occur twice or in no operand, and for
/// intermediate results of more than 8 axes.
ADJOINT_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace adjoint
