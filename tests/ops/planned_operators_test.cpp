// Every operator of the registry, planned: the same bits as the call, on other elements, too.
#include <adjoint/adjoint.h>
#include <adjoint/nn/plan.h>
#include <adjoint/tests/support/operator_cases.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace adjoint {
namespace {

// Those that read elements or draw random numbers, functions or cases, with a part of the Error.
const std::map<std::string, std::string>& refused() {
  static const std::string elements = "reads elements";
  static const std::map<std::string, std::string> functions = {
      {"ctc_loss", elements},
      {"gradient_penalty", "Plan: a network must"},
      {"index/mask", elements},
      {"index/mask_and_tensor", elements},
      {"index/scalars", elements},
      {"index_put_/mask", elements},
      {"istft/window", elements},
      {"masked_select", elements},
      {"nonzero", elements},
      {"one_hot/counted", elements},
      {"repeat_interleave/tensor", elements},
      {"unique", elements},
  };
  return functions;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0;
}

bool is_empty(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.numel() == 0; });
}

// In the reverse order, with the elements anywhere.
std::vector<Tensor> reversed(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> all;
  for (const Tensor& x : inputs) all.push_back(x.numel() == 0 ? x : flip(x.reshape({-1}), {0}).reshape(x.shape()));
  return all;
}

TEST(PlannedOperators, HaveTheBitsOfTheirCalls) {
  int planned = 0;
  for (const auto& family : testing::operator_families()) {
    for (const testing::OperatorCase& c : family.cases) {
      for (const testing::OperatorExample& example : testing::operator_examples(c)) {
        SCOPED_TRACE(c.name);
        auto found = refused().find(c.name);
        if (found == refused().end()) found = refused().find(c.name.substr(0, c.name.find('/')));
        std::vector<Tensor> expected;
        try {
          nn::Plan plan(c.call, example.inputs);
          EXPECT_TRUE(found == refused().end() || is_empty(example.inputs)) << "it was planned";
          ++planned;
          for (const std::vector<Tensor>& inputs : {example.inputs, reversed(example.inputs), example.inputs}) {
            try {
              expected = c.call(inputs);
            } catch (const Error&) {  // the function does not accept these elements
              EXPECT_THROW(plan.run(inputs), Error);
              continue;
            }
            const std::vector<Tensor>& actual = plan.run(inputs);
            ASSERT_EQ(actual.size(), expected.size());
            for (std::size_t i = 0; i < actual.size(); ++i) {
              EXPECT_TRUE(same_bits(actual[i], expected[i])) << i << ": " << actual[i] << "\nexpected " << expected[i];
            }
          }
        } catch (const Error& error) {
          const bool is_expected =
              found != refused().end() && std::string(error.what()).find(found->second) != std::string::npos;
          EXPECT_TRUE(is_expected) << error.what();
        }
      }
    }
  }
  EXPECT_GT(planned, 1000);
}

}  // namespace
}  // namespace adjoint
