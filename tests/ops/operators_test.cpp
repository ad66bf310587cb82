// Every operator of the registry (support/operator_cases.h) against PyTorch's values and gradients, finite differences,
// strides, dtypes and CUDA, and the calls that each must refuse.
#include <adjoint/adjoint.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/operator_cases.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::BadCall;
using testing::OperatorCase;
using testing::OperatorExample;

// Like expect_near, but infinities equal themselves and NaN equals NaN; with `signs`, 0 is not -0.
void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double tolerance,
                  bool signs = false) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) ||
                      std::abs(a[i] - e[i]) <= tolerance * (1.0 + std::abs(e[i]));
    const bool signed_alike = !signs || a[i] != 0.0 || e[i] != 0.0 || std::signbit(a[i]) == std::signbit(e[i]);
    ASSERT_TRUE(same && signed_alike) << what << ": got " << a[i] << ", expected " << e[i] << " for element " << i
                                      << " of " << to_string(actual.shape());
  }
}

// The tolerance of a result that is computed in float32 or wider: 16 bits are rounded once, to nearest.
double rounding(DType dtype) { return element_size(dtype) == 2 ? epsilon(dtype) / 2.0 : epsilon(dtype); }

// The inputs with `dtype` in place of float64, strided or not, on a device.
std::vector<Tensor> prepared(const std::vector<Tensor>& inputs, DType dtype, Device device = kCPU,
                             bool strided = false) {
  std::vector<Tensor> all;
  for (const Tensor& input : inputs) {
    const DType as = input.dtype() == kFloat64 ? dtype : input.dtype();
    const TensorOptions options{.dtype = as, .device = device};
    all.push_back(strided ? testing::non_contiguous(input.to(as).to_vector<double>(), input.shape(), options)
                          : input.to(as).to(device));
  }
  return all;
}

std::vector<DType> dtypes_of(const OperatorCase& c) { return testing::dtypes(c.takes); }

struct Gradients {
  std::vector<Tensor> results, gradients;
};

// Gradients of the sum of results times weights, for every floating-point input. Leaves are new: other tests share the
// inputs.
Gradients gradients(const OperatorCase& c, std::vector<Tensor> inputs, const std::vector<Tensor>& weights) {
  for (Tensor& input : inputs) {
    if (is_floating_point(input.dtype())) input = input.detach().requires_grad_();
  }
  Tape tape;
  Gradients found;
  const std::vector<Tensor> results = c.call(inputs);
  Tensor total;
  for (std::size_t i = 0; i < results.size(); ++i) {
    found.results.push_back(results[i].detach());
    if (!results[i].requires_grad() || !weights[i].defined()) continue;
    const Tensor part = (results[i] * weights[i].to(results[i].dtype()).to(results[i].device())).sum();
    total = total.defined() ? total + part : part;
  }
  if (total.defined()) tape.backward(total);
  for (const Tensor& input : inputs) {
    found.gradients.push_back(is_floating_point(input.dtype()) ? input.grad() : Tensor());
  }
  return found;
}

class Operators : public ::testing::TestWithParam<OperatorCase> {
 protected:
  void SetUp() override {
    ASSERT_FALSE(testing::operator_examples(GetParam()).empty()) << "no fixture has examples of " << GetParam().name;
  }
};

TEST_P(Operators, MatchesPyTorch) {
  const OperatorCase& c = GetParam();
  for (const OperatorExample& example : testing::operator_examples(c)) {
    const Gradients found = gradients(c, prepared(example.inputs, kFloat64), example.weights);
    ASSERT_EQ(found.results.size(), example.results.size());
    for (std::size_t i = 0; i < found.results.size(); ++i) {
      EXPECT_EQ(found.results[i].dtype(), example.results[i].dtype());
      expect_close("result " + std::to_string(i), found.results[i], example.results[i], c.tolerance, example.edge);
    }
    for (std::size_t i = 0; i < example.gradients.size(); ++i) {
      if (!c.differentiable) {
        EXPECT_FALSE(found.gradients[i].defined());
      } else if (example.gradients[i].defined()) {
        ASSERT_TRUE(found.gradients[i].defined()) << "of input " << i;
        expect_close("gradient " + std::to_string(i), found.gradients[i], example.gradients[i], 10 * c.tolerance);
      }
    }
  }
}

// Each dtype against float64 on the inputs that it holds, for contiguous and strided operands alike.
TEST_P(Operators, TakesEveryDTypeAndStrides) {
  const OperatorCase& c = GetParam();
  for (const OperatorExample& example : testing::operator_examples(c)) {
    if (example.edge) continue;
    for (const DType dtype : dtypes_of(c)) {
      SCOPED_TRACE(to_string(dtype));
      const std::vector<Tensor> in = prepared(example.inputs, dtype);
      const std::vector<Tensor> found = c.call(in), strided = c.call(prepared(example.inputs, dtype, kCPU, true));
      for (std::size_t i = 0; i < found.size(); ++i) {
        testing::expect_same_bits("strided", strided[i], found[i]);
        if (!is_floating_point(dtype)) continue;
        std::vector<Tensor> wide;
        for (const Tensor& x : in) wide.push_back(is_floating_point(x.dtype()) ? x.to(kFloat64) : x);
        expect_close("result " + std::to_string(i), found[i], c.call(wide)[i],
                     c.roundings * rounding(dtype) + c.tolerance);
      }
    }
  }
}

// The inputs of 3 to 5 axes in channels_last.
std::vector<Tensor> in_channels_last(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> all;
  for (const Tensor& x : inputs) {
    all.push_back(has_format(x.shape().size(), kChannelsLast) ? x.to(kChannelsLast) : x);
  }
  return all;
}

// Of functions that make images of images.
bool keeps_format(const std::string& name) {
  static const std::set<std::string> others = {"linear", "scaled_dot_product_attention"};
  return !others.contains(name.substr(0, name.find('/')));
}

void expect_same_in_channels_last(const OperatorCase& c, DType dtype, Device device) {
  for (const OperatorExample& example : testing::operator_examples(c)) {
    const std::vector<Tensor> in = prepared(example.inputs, dtype, device), last = in_channels_last(in);
    if (leading_format(last) == kContiguous) continue;
    const Gradients expected = gradients(c, in, example.weights), found = gradients(c, last, example.weights);
    const double tolerance = 2 * c.roundings * rounding(dtype) + c.tolerance;
    for (std::size_t i = 0; i < found.results.size(); ++i) {
      expect_close("result " + std::to_string(i), found.results[i], expected.results[i], tolerance);
      const Shape& shape = found.results[i].shape();
      const bool is_image = shape.size() == 4 && last[0].dim() == 4 && last[0].memory_format() == kChannelsLast;
      if (is_image && shape[1] > 1 && shape[2] * shape[3] > 1 && keeps_format(c.name)) {
        EXPECT_EQ(found.results[i].memory_format(), kChannelsLast) << "result " << i;
      }
    }
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      ASSERT_EQ(found.gradients[i].defined(), expected.gradients[i].defined()) << "gradient " << i;
      if (!found.gradients[i].defined()) continue;
      expect_close("gradient " + std::to_string(i), found.gradients[i], expected.gradients[i], 10 * tolerance);
      EXPECT_EQ(found.gradients[i].memory_format(), last[i].memory_format()) << "gradient " << i;
    }
  }
}

TEST_P(Operators, KeepsChannelsLast) {
  const std::vector<DType> dtypes = dtypes_of(GetParam());
  if (std::find(dtypes.begin(), dtypes.end(), kFloat64) == dtypes.end()) GTEST_SKIP() << "takes no float64";
  expect_same_in_channels_last(GetParam(), kFloat64, kCPU);
}

TEST_P(Operators, GradientsMatchFiniteDifferences) {
  const OperatorCase& c = GetParam();
  if (!c.differentiable) GTEST_SKIP() << "has no gradient";
  for (const OperatorExample& example : testing::operator_examples(c)) {
    if (example.edge) continue;
    const std::vector<Tensor> in = prepared(example.inputs, kFloat64);
    if (std::none_of(in.begin(), in.end(), [](const Tensor& x) { return x.dtype() == kFloat64; })) continue;
    for (std::size_t i = 0; i < example.results.size(); ++i) {
      if (example.results[i].dtype() != kFloat64) continue;
      const auto result = [&](const std::vector<Tensor>& x) { return c.call(x)[i]; };
      EXPECT_TRUE(gradcheck(result, in));
      EXPECT_TRUE(gradgradcheck(result, in));
    }
  }
}

TEST_P(Operators, HasExamplesOfEdgesAndWithoutElementsAndABadCall) {
  const OperatorCase& c = GetParam();
  const std::string function = c.name.substr(0, c.name.find('/'));
  bool empty = false, edge = false, bad = false;
  for (const OperatorCase& other : testing::operator_cases()) {
    if (other.name.substr(0, other.name.find('/')) != function) continue;
    for (const OperatorExample& example : testing::operator_examples(other)) {
      empty |=
          std::any_of(example.inputs.begin(), example.inputs.end(), [](const Tensor& x) { return x.numel() == 0; });
      edge |= example.edge;
    }
  }
  for (const testing::OperatorFamily& family : testing::operator_families()) {
    for (const BadCall& call : family.bad_calls) bad |= call.name == function;
  }
  EXPECT_TRUE(empty) << function << " has no example of inputs without elements";
  EXPECT_TRUE(edge) << function << " has no example of edges: infinities, NaN, ties, kinks or zeros";
  EXPECT_TRUE(bad) << function << " has no bad call";
}

std::string test_name(const ::testing::TestParamInfo<OperatorCase>& test) {
  std::string name = test.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Operators, ::testing::ValuesIn(testing::operator_cases()), test_name);

TEST(OperatorsRefuse, BadCalls) {
  for (const testing::OperatorFamily& family : testing::operator_families()) {
    for (const BadCall& bad : family.bad_calls) {
      const std::string prefix = bad.name + ": ";
      EXPECT_ERROR(bad.call(), prefix.c_str()) << bad.name;
      for (const char* part : bad.says) EXPECT_ERROR(bad.call(), part) << bad.name;
    }
  }
}

TEST(OperatorRegistry, HasEachCaseOnceAndEachFixture) {
  std::set<std::string> names;
  for (const OperatorCase& c : testing::operator_cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
  for (const auto& [name, examples] : testing::operator_examples()) EXPECT_TRUE(names.contains(name)) << name;
}

class OperatorsCuda : public ::testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorsCuda, AgreesWithTheCPU) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  const OperatorCase& c = GetParam();
  for (const OperatorExample& example : testing::operator_examples(c)) {
    for (const DType dtype : dtypes_of(c)) {
      if (example.edge && !is_floating_point(dtype)) continue;  // NaN and infinities have no integer
      SCOPED_TRACE(to_string(dtype));
      const double tolerance = (is_floating_point(dtype) ? 2 * c.roundings * rounding(dtype) : 0.0) + c.tolerance;
      const bool differentiates = c.differentiable && is_floating_point(dtype);
      const std::vector<Tensor> in = prepared(example.inputs, dtype), there = prepared(example.inputs, dtype, kCUDA);
      const auto run = [&](const std::vector<Tensor>& inputs) {
        return differentiates ? gradients(c, inputs, example.weights) : Gradients{c.call(inputs), {}};
      };
      const Gradients expected = run(in), found = run(there);
      for (std::size_t i = 0; i < found.results.size(); ++i) {
        EXPECT_TRUE(found.results[i].device().is_cuda());
        expect_close("result " + std::to_string(i), found.results[i].to(kCPU), expected.results[i], tolerance);
      }
      for (std::size_t i = 0; i < found.gradients.size(); ++i) {
        ASSERT_EQ(found.gradients[i].defined(), expected.gradients[i].defined());
        if (!found.gradients[i].defined()) continue;
        expect_close("gradient " + std::to_string(i), found.gradients[i].to(kCPU), expected.gradients[i],
                     4 * tolerance);
      }
      // Without a tape, as strided operands: a NaN's bits differ if a recorded call is composed of others.
      const std::vector<Tensor> packed = c.call(there);
      const std::vector<Tensor> strided = c.call(prepared(example.inputs, dtype, kCUDA, true));
      for (std::size_t i = 0; i < strided.size(); ++i) {
        testing::expect_same_bits("strided", strided[i].to(kCPU), packed[i].to(kCPU));
      }
    }
  }
}

TEST_P(OperatorsCuda, KeepsChannelsLast) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  for (const DType dtype : dtypes_of(GetParam())) {
    if (!is_floating_point(dtype)) continue;
    SCOPED_TRACE(to_string(dtype));
    expect_same_in_channels_last(GetParam(), dtype, kCUDA);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorsCuda, ::testing::ValuesIn(testing::operator_cases()), test_name);

}  // namespace
}  // namespace adjoint
