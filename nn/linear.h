// The fully connected layer.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/nn/number.h>

#include <cstdint>

namespace adjoint::nn {

struct LinearOptions {
  bool bias = true;
};

/// (..., in_features) -> (..., out_features): x weight^T + bias. Initialised like PyTorch's: U(-b, b), b = 1 /
/// sqrt(in_features).
class ADJOINT_API Linear : public Module {
 public:
  /// nn::Linear(3, 4, {.bias = false}), or nn::Linear(3, 4, false). Throws Error for features below 1.
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias)
      : Linear(in_features, out_features, LinearOptions{.bias = with_bias}) {}
  Linear(std::int64_t in_features, std::int64_t out_features, detail::NoNumber) = delete;
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;

  Parameter weight;  // (out_features, in_features)
  Parameter bias;    // (out_features); undefined without one

 private:
  Tensor product(const Tensor& input) const;
};

}  // namespace adjoint::nn
