// PyTorch's results and gradients for every combination of attributes (tests/fixtures/make_conv_fixtures.py), at
// tolerance zero: its numbers are integers. They settle the conventions: layouts, output_padding, groups.

#include <adjoint/core/autograd/tape.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/tests/support/fixtures.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace adjoint::testing {
namespace {

using Json = nlohmann::json;

Json load(const char* name) {
  std::ifstream file(testing::fixture(name));
  EXPECT_TRUE(file.is_open()) << name;
  return Json::parse(file);
}

Tensor tensor(const Json& json, const TensorOptions& options) {
  return Tensor::from_vector(json["values"].get<std::vector<double>>(),
                             Shape(json["shape"].get<std::vector<std::int64_t>>()), options);
}

std::int64_t one(const Json& json) { return json.at(0); }
Size2 two(const Json& json) { return {json.at(0).get<std::int64_t>(), json.at(1).get<std::int64_t>()}; }
Size3 three(const Json& json) {
  return {json.at(0).get<std::int64_t>(), json.at(1).get<std::int64_t>(), json.at(2).get<std::int64_t>()};
}

Tensor call(const Json& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  const Json &stride = c["stride"], &padding = c["padding"], &dilation = c["dilation"];
  const std::int64_t groups = c["groups"];
  if (c["op"] == "conv1d") {
    return conv1d(x, w, b,
                  {.stride = one(stride), .padding = one(padding), .dilation = one(dilation), .groups = groups});
  }
  if (c["op"] == "conv2d") {
    return conv2d(x, w, b,
                  {.stride = two(stride), .padding = two(padding), .dilation = two(dilation), .groups = groups});
  }
  if (c["op"] == "conv3d") {
    return conv3d(x, w, b,
                  {.stride = three(stride), .padding = three(padding), .dilation = three(dilation), .groups = groups});
  }
  const Json& output_padding = c["output_padding"];
  if (c["op"] == "conv_transpose1d") {
    return conv_transpose1d(x, w, b,
                            {.stride = one(stride),
                             .padding = one(padding),
                             .output_padding = one(output_padding),
                             .dilation = one(dilation),
                             .groups = groups});
  }
  if (c["op"] == "conv_transpose3d") {
    return conv_transpose3d(x, w, b,
                            {.stride = three(stride),
                             .padding = three(padding),
                             .output_padding = three(output_padding),
                             .dilation = three(dilation),
                             .groups = groups});
  }
  return conv_transpose2d(x, w, b,
                          {.stride = two(stride),
                           .padding = two(padding),
                           .output_padding = two(output_padding),
                           .dilation = two(dilation),
                           .groups = groups});
}

void compare(const Json& c, const TensorOptions& options) {
  TensorOptions leaf = options;
  leaf.requires_grad = true;
  const Tensor x = tensor(c["input"], leaf), w = tensor(c["weight"], leaf);
  const Tensor b = c.contains("bias") ? tensor(c["bias"], leaf) : Tensor();

  Tape tape;
  const Tensor y = call(c, x, w, b);
  ASSERT_EQ(y.shape(), Shape(c["output"]["shape"].get<std::vector<std::int64_t>>()));
  expect_values("output", y, c["output"]["values"]);
  tape.backward(y, {.grad_output = tensor(c["grad_output"], options)});
  expect_values("grad_input", x.grad(), c["grad_input"]["values"]);
  expect_values("grad_weight", w.grad(), c["grad_weight"]["values"]);
  if (b.defined()) expect_values("grad_bias", b.grad(), c["grad_bias"]["values"]);
}

void compare_all(const TensorOptions& options) {
  const Json fixtures = load("conv_fixtures.json");
  ASSERT_EQ(fixtures["cases"].size(), 220U);
  for (const Json& c : fixtures["cases"]) {
    SCOPED_TRACE(c.dump());
    compare(c, options);
  }
}

TEST(ConvFixtures, Float32EqualsPyTorch) { compare_all({.dtype = kFloat32}); }
TEST(ConvFixtures, Float64EqualsPyTorch) { compare_all({.dtype = kFloat64}); }

TEST(ConvFixturesCuda, Float32EqualsPyTorch) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  compare_all({.dtype = kFloat32, .device = kCUDA});
}
TEST(ConvFixturesCuda, Float64EqualsPyTorch) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  compare_all({.dtype = kFloat64, .device = kCUDA});
}

}  // namespace
}  // namespace adjoint::testing
