// Building blocks of the reductions' operators. Internal to ops/reduce.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/kernels.h>

namespace adjoint::reducing {

inline bool reduces(const ReduceAttr& attr, std::size_t axis) { return (attr.axes >> axis & 1U) != 0; }

/// The operand's shape without the reduced axes, or with one element in each.
Shape kept_shape(const ReduceAttr& attr, bool keepdim);
/// The result's shape.
inline Shape result_shape(const ReduceAttr& attr) { return kept_shape(attr, attr.keepdim); }
/// The number of elements that are reduced to one.
std::int64_t reduced_numel(const ReduceAttr& attr);
Dims axes_of(const ReduceAttr& attr);

/// A result, or its gradient, repeated along the reduced axes to the operand's shape.
Tensor spread(const Tensor& reduced, const ReduceAttr& attr);

/// The first result in float32, recomputed if it was rounded to 16 bits.
template <class Attr>
Tensor unrounded(const OpDef<Attr>& op, const Ctx<Attr>& c) {
  return element_size(c.out.dtype()) == 2 ? apply_all(op, {widened(c.in[0])}, c.attr)[0] : c.out;
}

/// Throws Error, naming `op`, for axes that are named twice or that the input does not have.
ReduceAttr attributes(const char* op, const Tensor& input, const Dims& axes, bool keepdim);
void check_floating(const char* op, const Tensor& input);
/// Throws Error, naming `op`, if there is no element to compare.
void check_elements(const char* op, const ReduceAttr& attr, const Dims& axes);

}  // namespace adjoint::reducing
