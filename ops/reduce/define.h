// Building blocks of the reductions' operators. Internal to ops/reduce.
#pragma once

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/widened.h>
#include <adjoint/ops/reduce/kernels.h>
#include <adjoint/ops/view/memory_order.h>

#include <array>
#include <utility>

namespace adjoint::reducing {

inline bool reduces(const ReduceAttr& attr, std::size_t axis) { return (attr.axes >> axis & 1U) != 0; }

/// The operand's shape without the reduced axes, or with one element in each.
Shape kept_shape(const ReduceAttr& attr, bool keepdim);
/// The result's shape.
inline Shape result_shape(const ReduceAttr& attr) { return kept_shape(attr, attr.keepdim); }
/// The number of elements that are reduced to one.
std::int64_t reduced_numel(const ReduceAttr& attr);
Dims axes_of(const ReduceAttr& attr);

inline ReduceAttr& reduction_of(ReduceAttr& attr) { return attr; }
template <class Attr>
ReduceAttr& reduction_of(Attr& attr) {
  return attr.reduce;
}

/// The reduction of a tensor in channels_last, as one of (N, ..., C).
ReduceAttr in_memory_order(const ReduceAttr& attr);
/// The result of that reduction with its axes in the order of the reduction `attr` of (N, C, ...).
Tensor in_logical_order(const Tensor& result, const ReduceAttr& attr);

/// All results of op(x). A tensor in channels_last is reduced in the order of memory.
template <class Attr>
std::array<Tensor, kMaxResults> reduce_all(const OpDef<Attr>& op, const Tensor& x, const Attr& attr) {
  if (!is_channels_last(x)) return apply_all(op, Operands(&x, 1), attr);
  const OpScope scope(op.name);
  Attr own = attr;
  reduction_of(own) = in_memory_order(reduction_of(own));
  std::array<Tensor, kMaxResults> results = apply_all(op, {to_memory_order(x)}, own);
  Attr given = attr;
  for (Tensor& result : results) {
    if (result.defined()) result = in_logical_order(result, reduction_of(given));
  }
  return results;
}
template <class Attr>
Tensor reduce_one(const OpDef<Attr>& op, const Tensor& x, const Attr& attr) {
  return std::move(reduce_all(op, x, attr)[0]);
}

/// A result, or its gradient, repeated along the reduced axes to the operand's shape.
Tensor spread(const Tensor& reduced, const ReduceAttr& attr);

/// The first result in float32, recomputed if it was rounded to 16 bits.
template <class Attr>
Tensor unrounded(const OpDef<Attr>& op, const Ctx<Attr>& c) {
  return element_size(c.out.dtype()) == 2 ? apply_all(op, {widened(c.in[0])}, c.attr)[0] : c.out;
}

/// A node of ONNX's type Reduce<kind>, whose input `x` has the operand's shape.
OnnxValue reduced_onnx(OnnxCall& call, std::string_view kind, OnnxValue x, const ReduceAttr& attr);
/// The operand of a sum: integers and bool become int64.
OnnxValue summand_onnx(OnnxCall& call);

/// Throws Error, naming `op`, for axes that are named twice or that the input does not have.
ReduceAttr attributes(const char* op, const Tensor& input, const Dims& axes, bool keepdim);
void check_floating(const char* op, const Tensor& input);
/// Throws Error, naming `op`, if there is no element to compare.
void check_elements(const char* op, const ReduceAttr& attr, const Dims& axes);

}  // namespace adjoint::reducing
