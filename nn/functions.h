// Functions of ops/functions.h as modules, with PyTorch's options; and two modules that rearrange or compare.
#pragma once

#include <adjoint/nn/activation.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/reduce/reduce.h>

#include <cstdint>

namespace adjoint::nn {

/// nn::CELU(0.5), nn::CELU({.alpha = 0.5}); nn::Threshold(0.1, 0).
#define ADJOINT_FUNCTION_MODULE(Name, function, option, value)                             \
  struct Name##Options {                                                                   \
    double option = value;                                                                 \
  };                                                                                       \
  class ADJOINT_API Name : public Module {                                                 \
   public:                                                                                 \
    explicit Name(const Name##Options& options = {}) : Module(#Name), options_(options) {  \
      set_description(detail::describe_parameter(#option, options.option));                \
    }                                                                                      \
    explicit Name(double option) : Name(Name##Options{option}) {}                          \
    explicit Name(detail::NoNumber) = delete;                                              \
    Tensor operator()(const Tensor& input) const {                                         \
      check_not_moved_from(#Name);                                                         \
      return hooked(input, [&](const Tensor& x) { return function(x, options_.option); }); \
    }                                                                                      \
                                                                                           \
   private:                                                                                \
    Name##Options options_;                                                                \
  };
ADJOINT_FUNCTION_MODULE(CELU, celu, alpha, 1.0)
ADJOINT_FUNCTION_MODULE(Softshrink, softshrink, lambda, 0.5)
ADJOINT_FUNCTION_MODULE(Hardshrink, hardshrink, lambda, 0.5)
#undef ADJOINT_FUNCTION_MODULE

class ADJOINT_API Tanhshrink : public Module {
 public:
  Tanhshrink() : Module("Tanhshrink") {}
  Tensor operator()(const Tensor& input) const {
    return hooked(input, [](const Tensor& x) { return tanhshrink(x); });
  }
};

class ADJOINT_API Threshold : public Module {
 public:
  Threshold(double threshold, double value) : Module("Threshold"), threshold_(threshold), value_(value) {}
  Tensor operator()(const Tensor& input) const {
    check_not_moved_from("Threshold");
    return hooked(input, [&](const Tensor& x) { return threshold(x, threshold_, value_); });
  }

 private:
  double threshold_, value_;
};

/// (N, C, ...): channel g C' + c of `groups` groups of C' = C / groups goes to place c groups + g (Zhang et al.:
/// "ShuffleNet", 2018). Throws Error for groups below 1, and at the call for channels that they do not divide.
class ADJOINT_API ChannelShuffle : public Module {
 public:
  explicit ChannelShuffle(std::int64_t groups);
  Tensor operator()(const Tensor& input) const;

 private:
  std::int64_t groups_;
};

struct PairwiseDistanceOptions {
  double p = 2.0, eps = 1e-6;
  bool keepdim = false;
};
/// The p-norm of x - y + eps over the last axis.
class ADJOINT_API PairwiseDistance : public Module {
 public:
  explicit PairwiseDistance(const PairwiseDistanceOptions& options = {})
      : Module("PairwiseDistance"), options_(options) {}
  explicit PairwiseDistance(double p) : PairwiseDistance(PairwiseDistanceOptions{.p = p}) {}
  explicit PairwiseDistance(detail::NoNumber) = delete;
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    check_not_moved_from("PairwiseDistance");
    return hooked(x, [&](const Tensor& first) {
      return norm(first - y + options_.eps, options_.p, -1, options_.keepdim);
    });
  }

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace adjoint::nn
