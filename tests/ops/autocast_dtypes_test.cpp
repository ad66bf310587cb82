// The dtypes of every operator of the registry and of the convolutions inside a region of mixed precision, against
// those of PyTorch's lists (tests/fixtures/make_autocast.py).
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/operator_cases.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

const nlohmann::json& expected_dtypes() {
  static const nlohmann::json all = [] {
    std::ifstream file(testing::fixture("autocast.json"));
    return nlohmann::json::parse(file);
  }();
  return all;
}

// Operators without PyTorch dtypes to compare with: a function, or a function's operands of some dtypes.
const std::map<std::string, std::string>& exempt() {
  const std::string asked = "it has no operands, and its dtype is the one that is asked for";
  const std::string refused = "PyTorch refuses weights or sources of another dtype than the input's";
  static const std::map<std::string, std::string> all = {
      {"hann_window", asked},
      {"hamming_window", asked},
      {"blackman_window", asked},
      {"mel_filter_bank", asked},
      {"affine_grid/of_nothing", "its case calls what stands in for it in PyTorch"},
      {"einsum", "it is made of matmul, sum and products, which are compared"},
      {"rotary_embedding", "PyTorch has no such function, and its case multiplies by angles of float64"},
      {"quantile of bfloat16 operands", "PyTorch has those of float32 and float64 alone"},
      {"irfft2 of bfloat16 operands", "PyTorch has no complex numbers of bfloat16"},
      {"irfft of bfloat16 operands", "PyTorch has no complex numbers of bfloat16"},
      {"batch_norm of mixed operands", refused},
      {"instance_norm of mixed operands", refused},
      {"scatter of mixed operands", refused},
      {"index_put_ of mixed operands", refused},
      {"lerp of mixed operands", refused},
      {"index_add of mixed operands", refused},
      {"isclose of mixed operands", refused},
      {"meshgrid of mixed operands", refused},
  };
  return all;
}

class AutocastDTypes : public ::testing::Test {
 protected:
  // Calls with the inputs of float64 in the given dtypes, by turns.
  void compare(const std::string& name, const Call& call, std::vector<Tensor> inputs, const std::string& of,
               const std::vector<DType>& dtypes) {
    std::size_t floating = 0;
    for (Tensor& x : inputs) {
      if (x.dtype() == kFloat64) x = x.to(dtypes[floating++ % dtypes.size()]);
    }
    if (floating < dtypes.size()) return;  // no floating-point input, or one dtype instead of a mixture
    const std::string family = name.substr(0, name.find('/'));
    SCOPED_TRACE(name + " of " + of + " operands");
    const nlohmann::json entry = expected_dtypes().value(name, nlohmann::json());
    if (!entry.is_object() || !entry.contains(of) || entry[of].is_null()) {
      EXPECT_TRUE(exempt().contains(name) || exempt().contains(family) ||
                  exempt().contains(family + " of " + of + " operands"))
          << "autocast.json has no dtypes for it";
      return;
    }
    const AutocastGuard guard(kBFloat16);
    std::vector<Tensor> results;
    ASSERT_NO_THROW(results = call(inputs));
    const auto expected = entry[of].get<std::vector<std::string>>();
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(to_string(results[i].dtype()), expected[i]) << "result " << i;
    }
    ++compared_;
  }
  void compare(const std::string& name, const Call& call, const std::vector<Tensor>& inputs) {
    compare(name, call, inputs, "float32", {kFloat32});
    compare(name, call, inputs, "bfloat16", {kBFloat16});
    compare(name, call, inputs, "mixed", {kFloat32, kBFloat16});
  }

  int compared_ = 0;
};

TEST_F(AutocastDTypes, AreThoseOfPyTorchsLists) {
  for (const testing::OperatorCase& c : testing::operator_cases()) {
    const auto examples = testing::operator_examples(c);
    ASSERT_FALSE(examples.empty()) << c.name;
    compare(c.name, c.call, examples[0].inputs);
  }
  EXPECT_GE(compared_, 980);
}

TEST_F(AutocastDTypes, OfConvolutionsAreThoseOfPyTorchsLists) {
  using In = const std::vector<Tensor>&;
  const auto ones = [](const Shape& shape) { return Tensor::ones(shape, {.dtype = kFloat64}); };
  const Tensor line = ones({1, 2, 5}), plane = ones({1, 2, 5, 5}), volume = ones({1, 2, 5, 5, 5}), bias = ones({3});
  const auto one = [](const Tensor& result) { return std::vector<Tensor>{result}; };
  compare("conv1d", [&](In in) { return one(conv1d(in[0], in[1], in[2])); }, {line, ones({3, 2, 3}), bias});
  compare("conv2d", [&](In in) { return one(conv2d(in[0], in[1], in[2])); }, {plane, ones({3, 2, 3, 3}), bias});
  compare("conv_transpose1d", [&](In in) { return one(conv_transpose1d(in[0], in[1], in[2])); },
          {line, ones({2, 3, 3}), bias});
  compare("conv_transpose2d", [&](In in) { return one(conv_transpose2d(in[0], in[1], in[2])); },
          {plane, ones({2, 3, 3, 3}), bias});
  compare("conv3d", [&](In in) { return one(conv3d(in[0], in[1], in[2])); }, {volume, ones({3, 2, 3, 3, 3}), bias});
  compare("conv_transpose3d", [&](In in) { return one(conv_transpose3d(in[0], in[1], in[2])); },
          {volume, ones({2, 3, 3, 3, 3}), bias});
  EXPECT_EQ(compared_, 18);
}

}  // namespace
}  // namespace adjoint
