// The dtypes of every operator of the registry inside a region of mixed precision, against those of PyTorch's lists
// (tests/fixtures/make_autocast.py).
#include <adjoint/core/autocast.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/operator_cases.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::OperatorCase;

const nlohmann::json& expected_dtypes() {
  static const nlohmann::json all = [] {
    std::ifstream file(testing::fixture("autocast.json"));
    return nlohmann::json::parse(file);
  }();
  return all;
}

// The first example's inputs, those of float64 in the given dtypes by turns.
std::vector<Tensor> inputs_of(const OperatorCase& c, const std::vector<DType>& dtypes) {
  std::vector<Tensor> inputs = testing::operator_examples(c)[0].inputs;
  std::size_t floating = 0;
  for (Tensor& x : inputs) {
    if (x.dtype() == kFloat64) x = x.to(dtypes[floating++ % dtypes.size()]);
  }
  return inputs;
}

void expect_dtypes(const OperatorCase& c, const std::string& of, const std::vector<DType>& dtypes, int& compared) {
  const nlohmann::json& entry = expected_dtypes();
  if (!entry.contains(c.name) || entry[c.name][of].is_null()) return;
  const AutocastGuard guard(kBFloat16);
  SCOPED_TRACE(c.name + " of " + of + " operands");
  const std::vector<Tensor> inputs = inputs_of(c, dtypes);
  std::vector<Tensor> results;
  ASSERT_NO_THROW(results = c.call(inputs));
  const auto expected = entry[c.name][of].get<std::vector<std::string>>();
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(to_string(results[i].dtype()), expected[i]) << "result " << i;
  }
  ++compared;
}

TEST(AutocastDTypes, AreThoseOfPyTorchsLists) {
  int compared = 0;
  for (const OperatorCase& c : testing::operator_cases()) {
    if (testing::operator_examples(c).empty()) continue;
    expect_dtypes(c, "float32", {kFloat32}, compared);
    expect_dtypes(c, "bfloat16", {kBFloat16}, compared);
    expect_dtypes(c, "mixed", {kFloat32, kBFloat16}, compared);
  }
  EXPECT_GE(compared, 600);
}

}  // namespace
}  // namespace adjoint
