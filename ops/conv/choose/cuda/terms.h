// What kernels' times are made of, by their plans: the estimate of a time is the sum of its terms, each times a
// coefficient that was fitted to measured times (calibration.inc). All estimates are microseconds from start to end, of
// one machine, so that any two kernels can be compared.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace adjoint::cuda {

inline constexpr std::size_t kMostTerms = 10;

/// The first is 1, for launches and whatever else is fixed; the second what memory_microseconds() says. Those after
/// them depend on the kernel. None: the kernel is not to be chosen.
class Terms {
 public:
  Terms() = default;
  Terms(const ConvProblem& problem, std::initializer_list<double> of_kernel);
  std::span<const double> all() const { return {values_.data(), count_}; }

 private:
  std::array<double, kMostTerms> values_{};
  std::size_t count_ = 0;
};

/// What memory takes to bring both operands and the filter and keep the result, each once.
double memory_microseconds(const ConvProblem& problem);

/// Clocks of a multiprocessor as microseconds.
double clocks_as_microseconds(double clocks);

// Each of a problem that the kernel takes; those of other orders are in rearranged.h.
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
