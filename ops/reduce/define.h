// What reductions' operators are made of. Internal to ops/reduce.
#pragma once

#include <adjoint/core/op.h>
#include <adjoint/ops/reduce/kernels.h>

namespace adjoint::reducing {

inline bool reduces(const ReduceAttr& attr, std::size_t axis) { return (attr.axes >> axis & 1U) != 0; }

/// The operand's shape without the reduced axes, or with one element in each.
Shape kept_shape(const ReduceAttr& attr, bool keepdim);
/// The result's.
inline Shape result_shape(const ReduceAttr& attr) { return kept_shape(attr, attr.keepdim); }
/// Elements that become one.
std::int64_t reduced_numel(const ReduceAttr& attr);
Dims axes_of(const ReduceAttr& attr);

/// What stands at a reduced axis for its whole length: the result, or its gradient, in the operand's shape.
Tensor spread(const Tensor& reduced, const ReduceAttr& attr);

/// Throws Error, naming `op`, for axes that are named twice or that the input does not have.
ReduceAttr attributes(const char* op, const Tensor& input, const Dims& axes, bool keepdim);
void check_floating(const char* op, const Tensor& input);
/// Throws Error, naming `op`, where nothing would be compared.
void check_elements(const char* op, const ReduceAttr& attr, const Dims& axes);

}  // namespace adjoint::reducing
