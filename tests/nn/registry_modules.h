// Shared by the tests of modules' registries.
#pragma once

#include <adjoint/nn/conv.h>
#include <adjoint/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {

inline std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

inline std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors) all.push_back(name);
  return all;
}

inline bool same(const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); }

inline Conv1d pointwise(double weight) {
  Conv1d conv(1, 1, {.kernel_size = 1, .bias = false});
  conv.weight.fill_(weight);
  return conv;
}

class Scaled : public Module {
 public:
  explicit Scaled(double weight = 1.0)
      : Module("Scaled"),
        conv(register_module("conv", pointwise(weight))),
        scale(register_parameter("scale", Tensor::ones({1}))),
        shift(register_buffer("shift", Tensor::zeros({1}))) {}
  Tensor operator()(const Tensor& x) const { return conv(x) * scale + shift; }

  Child<Conv1d> conv;
  Parameter scale;
  Buffer shift;
};

inline const Tensor kOne = Tensor::ones({1, 1, 1});
inline float at_one(const Scaled& module) { return module(kOne).item<float>(); }

}  // namespace adjoint::nn
