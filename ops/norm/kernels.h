// Normalisation by device. x is seen as (samples, groups, depth, inner): channels are groups * depth, with one weight
// and bias each. Statistics cover (depth, inner), or the samples too. A row is (depth, inner) of one sample and group,
// and is contiguous in memory, or memory holds (samples, inner, groups, depth).
#pragma once

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/elementwise/activate.h>

#include <cstdint>
#include <span>

namespace adjoint {

struct NormAttr {
  std::int64_t samples = 1, groups = 1, depth = 1, inner = 1;
  bool across = false;  // statistics cover the samples; depth is then 1
  bool centred = true;  // if false, the mean counts as 0
  bool given = false;   // statistics are an operand
  bool wide =
      false;  // weight and bias have the type in which x is computed, and depth is 1; otherwise they have x's dtype
  bool channels_last = false;  // in memory, channels follow `inner`; only CUDA kernels support it
  double eps = 0.0;
  Activation activation = {};  // one that convolutions can fuse

  std::int64_t rows() const { return samples * groups; }
  std::int64_t row_length() const { return depth * inner; }
  std::int64_t channels() const { return groups * depth; }
  std::int64_t statistics() const { return across ? groups : rows(); }
};

/// For the elements that share them: the mean, as mean + rest with twice A's digits, and the variance.
template <class A>
struct Statistics {
  A mean, rest, variance;
};
inline constexpr std::int64_t kStatisticsFields = 3;

/// The update of running statistics by a batch's.
struct FollowAttr {
  double momentum = 0.0, variance_momentum = 0.0;
};

/// In place: g times the activation's derivative at z, for arrays. T is the type of the computation.
template <class T>
class ActivationSlope {
 public:
  explicit ActivationSlope(const Activation& activation)
      : kind_(activation.kind), leaky_relu_(ScalarAttr{activation.parameters[0]}) {}

  ADJOINT_HD bool is_none() const { return kind_ == ActivationKind::kNone; }
  template <int kCount>
  ADJOINT_HD void operator()(T (&g)[kCount], const T (&z)[kCount]) const {
    switch (kind_) {
      case ActivationKind::kReLU: return each(functor::ReLU<T>{}, g, z);
      case ActivationKind::kLeakyReLU: return each(leaky_relu_, g, z);
      case ActivationKind::kTanh: return each(functor::Tanh<T>{}, g, z);
      case ActivationKind::kSigmoid: return each(functor::Sigmoid<T>{}, g, z);
      case ActivationKind::kSiLU: return each(functor::SiLU<T>{}, g, z);
      default: return;
    }
  }

 private:
  template <class F, int kCount>
  ADJOINT_HD static void each(const F& f, T (&g)[kCount], const T (&z)[kCount]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < kCount; ++i) {
      if constexpr (F::kKept == functor::Kept::kResult) {
        g[i] = f.gradient(g[i], f(z[i]));
      } else {
        g[i] = f.gradient(g[i], z[i]);
      }
    }
  }

  ActivationKind kind_;
  functor::LeakyReLU<T> leaky_relu_;
};

}  // namespace adjoint

// in: x, weight, bias, residual, statistics, the last four undefined if absent. out: y, and the statistics (groups that
// have one, kStatisticsFields) unless they are given.
//
// The gradients' in: y's gradient, and the same five. out: x's, weight's, bias's and residual's, in their dtypes, each
// without elements if it is not needed.
//
// follow_statistics: in: running mean and variance (C), of one dtype, and statistics (samples, C, kStatisticsFields).
// out: the new running ones, which may be the old: (1 - momentum) old + momentum * mean over samples.
//
// give_statistics: in: running mean and variance. out: statistics.
namespace adjoint::cpu {
void follow_statistics(std::span<const Tensor> in, std::span<Tensor> out, const FollowAttr& attr);
void give_statistics(std::span<const Tensor> in, Tensor& out, const DType& dtype);
void normalize(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr);
void normalize_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr);
}  // namespace adjoint::cpu

namespace adjoint::cuda {
void follow_statistics(std::span<const Tensor> in, std::span<Tensor> out, const FollowAttr& attr);
void give_statistics(std::span<const Tensor> in, Tensor& out, const DType& dtype);
void normalize(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr);
void normalize_gradients(std::span<const Tensor> in, std::span<Tensor> out, const NormAttr& attr);
}  // namespace adjoint::cuda
