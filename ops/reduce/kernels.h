// The reductions' kernels by device. Operands are contiguous; `out` is written completely.
//
// The divisor of a variance is the number of elements minus the correction, or 0. `moments` returns the moments
// (combine.h) from which a mean and a variance are computed, both in one pass over memory.
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/reduce/stages.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct ExtremeAttr {
  ReduceAttr reduce;
  bool least;      // else the largest
  bool magnitude;  // of absolute values; floating point
};

/// p is finite.
struct PowerAttr {
  ReduceAttr reduce;
  double p;
};

/// Along the middle axis of an operand that is seen as (outer, extent, inner).
struct PlaceAttr {
  Shape from;  // the operand's
  std::int64_t outer;
  std::int64_t extent;
  std::int64_t inner;
  bool least;
  Shape result;
};

/// The product if the second of a pair is not positive: the gradient of PReLU's weight.
struct ProductWhereNotPositive {
  template <class C>
  ADJOINT_HD C value(C g, C x) const {
    return x > C{0} ? C{0} : g * x;
  }
};

struct VarianceAttr {
  ReduceAttr reduce;
  bool root;
};

/// Elements of the result.
std::int64_t result_numel(const ReduceAttr& attr);
/// `tensor`, which has the shape from `attr` with `fields` numbers for each result, seen in the operand's shape: each
/// result's field is repeated along the reduced axes.
Tensor spread_field(const Tensor& tensor, const ReduceAttr& attr, std::int64_t fields, std::int64_t field);

}  // namespace adjoint

// extreme: into bool, finds elements that are not 0.
// place: out: the indices, or values and indices.
// variance, mean_and_variance: out: the variance or its root; that and the mean.
// centre: in: x, g of the reduced shape; out: 2 / attr.divisor * g * (x - x's mean), in x's shape.
// sum_gated: in: g, x; out: the sum of ProductWhereNotPositive.
// moments: (results, kMomentsFields) in the type in which `in` is computed, which is floating point; `in` is contiguous
// and not empty.

namespace adjoint::cpu {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_product(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void sum_gated(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_power(std::span<const Tensor> in, Tensor& out, const PowerAttr& attr);
void logsumexp(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void extreme(std::span<const Tensor> in, Tensor& out, const ExtremeAttr& attr);
void place(std::span<const Tensor> in, std::span<Tensor> out, const PlaceAttr& attr);
void variance(std::span<const Tensor> in, Tensor& out, const VarianceAttr& attr);
void mean_and_variance(std::span<const Tensor> in, std::span<Tensor> out, const VarianceAttr& attr);
void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
Tensor moments(const Tensor& in, const ReduceAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void reduce_sum(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_product(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void sum_gated(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void reduce_power(std::span<const Tensor> in, Tensor& out, const PowerAttr& attr);
void logsumexp(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
void extreme(std::span<const Tensor> in, Tensor& out, const ExtremeAttr& attr);
void place(std::span<const Tensor> in, std::span<Tensor> out, const PlaceAttr& attr);
void variance(std::span<const Tensor> in, Tensor& out, const VarianceAttr& attr);
void mean_and_variance(std::span<const Tensor> in, std::span<Tensor> out, const VarianceAttr& attr);
void centre(std::span<const Tensor> in, Tensor& out, const ReduceAttr& attr);
Tensor moments(const Tensor& in, const ReduceAttr& attr);
}  // namespace adjoint::cuda
