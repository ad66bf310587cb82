// The terms of kernels' times, derived from their plans: the estimate of a time is the sum of its terms, each times a
// coefficient fitted to measured times (calibration.inc). All estimates are microseconds from start to end, on one
// machine, so any two kernels can be compared.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace adjoint::cuda {

inline constexpr std::size_t kMostTerms = 10;

/// The first term is 1, for launches and other fixed costs, and the second is memory_microseconds(). The others depend
/// on the kernel. Empty: the kernel must not be chosen.
class Terms {
 public:
  Terms() = default;
  Terms(const ConvProblem& problem, std::initializer_list<double> of_kernel);
  std::span<const double> all() const { return {values_.data(), count_}; }

 private:
  std::array<double, kMostTerms> values_{};
  std::size_t count_ = 0;
};

/// The time to read both operands and the filter and to write the result, each once.
double memory_microseconds(const ConvProblem& problem);

/// Clocks of a multiprocessor as microseconds.
double clocks_as_microseconds(double clocks);

// For problems that the kernel supports; terms of other orders are in rearranged.h.
Terms plain_terms(const ConvProblem& problem);
Terms plain_weight_terms(const ConvProblem& problem);
Terms few_results_terms(const ConvProblem& problem);
Terms few_weight_terms(const ConvProblem& problem);
Terms short_sums_terms(const ConvProblem& problem);
Terms channelwise_terms(const ConvProblem& problem);
Terms channelwise_weight_terms(const ConvProblem& problem);
Terms product_terms(const ConvProblem& problem);
Terms tapwise_terms(const ConvProblem& problem);
Terms correlation_terms(const ConvProblem& problem);
Terms blocked_terms(const ConvProblem& problem);
Terms sliced_terms(const ConvProblem& problem);
Terms mma_terms(const ConvProblem& problem);
Terms narrow_terms(const ConvProblem& problem);
Terms packed_terms(const ConvProblem& problem);
Terms col2im_terms(const ConvProblem& problem);
Terms boxes_terms(const ConvProblem& problem);
Terms wgmma_weight_terms(const ConvProblem& problem);
Terms blocked_weight_terms(const ConvProblem& problem);
Terms tensor_core_weight_terms(const ConvProblem& problem);

}  // namespace adjoint::cuda
