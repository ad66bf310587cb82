// Checks that the tests of recurrent, attention and transformer layers share.
#pragma once

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/nn/clone.h>
#include <adjoint/nn/module.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::nn {

/// Checks derivatives of the first and second order in `inputs`, float64, and in every parameter of the layer: `call`
/// gives results from the layer and the inputs.
template <class M, class Call>
void expect_right_derivatives(M layer, std::vector<Tensor> inputs, const Call& call) {
  layer.to(kFloat64);
  const std::size_t count = inputs.size();
  // The function receives the parameters as further arguments, behind the inputs.
  auto given = std::make_shared<std::vector<Tensor>>();
  for (const auto& [path, module] : layer.named_modules()) {
    Module owner = module;
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [name, tensor] : owner.named_parameters()) {
      if (name.find('.') != std::string::npos) continue;
      const std::size_t place = given->size();
      given->push_back(tensor.detach().clone());
      owner.reparametrize(name, {.kind = "given", .parts = {}, .make = [given, place](const auto&, bool) {
                                   return (*given)[place];
                                 }});
    }
  }
  inputs.insert(inputs.end(), given->begin(), given->end());
  for (Tensor& input : inputs) input.requires_grad_();
  const auto f = [&](const std::vector<Tensor>& in) {
    given->assign(in.begin() + static_cast<std::ptrdiff_t>(count), in.end());
    return call(layer, in);
  };
  EXPECT_TRUE(gradcheck(f, inputs));
  EXPECT_TRUE(gradgradcheck(f, inputs));
}

}  // namespace adjoint::nn
