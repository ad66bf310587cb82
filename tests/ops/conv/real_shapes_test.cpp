// Shapes of real networks, from real_network_shapes.json in the folder that ADJOINT_CASES_DIR names, with a batch of 2.
// The file is not part of this repository; these tests are skipped if it is absent.

#include <adjoint/ops/conv/trio.h>
#include <adjoint/tests/support/conv_oracle.h>
#include <adjoint/tests/support/conv_problem.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <optional>

namespace adjoint::testing {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShapes = 196;               // that the front ends can express
constexpr std::size_t kShards = 14;                // tests, so that CTest can run them side by side
constexpr std::int64_t kWholeResult = 50'000'000;  // multiply-adds; above, random elements are compared
constexpr std::int64_t kSamples = 1000;

Extent2 extents(const Json& values, std::int64_t unit) {
  if (values.size() == 1) return {unit, values.at(0)};
  return {values.at(0), values.at(1)};
}

ConvCase parse(const Json& p) {
  const Json& torch = p["torch"];
  return {.name = p["sources"][0]["desc"],
          .rank = p["ndim"],
          .batch = 2,
          .in_channels = p["ic"],
          .out_channels = p["oc"],
          .groups = torch["groups"],
          .input = {p["ih"], p["iw"]},
          .kernel = {p["kh"], p["kw"]},
          .stride = extents(torch["stride"], 1),
          .padding = extents(torch["padding"], 0),
          .output_padding = extents(torch["output_padding"], 0),
          .dilation = extents(torch["dilation"], 1)};
}

/// Nothing if the folder is not named or lacks the file.
std::optional<std::vector<ConvCase>> load_shapes() {
  const char* folder = std::getenv("ADJOINT_CASES_DIR");
  if (folder == nullptr) return std::nullopt;
  std::ifstream file(std::string(folder) + "/real_network_shapes.json");
  if (!file.is_open()) return std::nullopt;
  std::vector<ConvCase> cases;
  const Json shapes = Json::parse(file);
  for (const Json& problem : shapes["problems"]) {
    if (problem["torch"]["expressible"].get<bool>()) cases.push_back(parse(problem));
  }
  return cases;
}

template <class At>
void expect_sampled(const char* what, const Tensor& actual, At at) {
  const std::vector<float> values = actual.to_vector<float>();
  const std::vector<double> random = reals(kSamples, 7);
  for (const double r : random) {
    const auto index = static_cast<std::int64_t>((r + 1.0) / 2.0 * static_cast<double>(values.size()));
    ASSERT_EQ(static_cast<double>(values[static_cast<std::size_t>(index)]), at(index)) << what << ", element " << index;
  }
}

void check(const ConvCase& c, Device device) {
  const ConvProblem p = integer_problem(geometry(c));
  const ConvGeometry& g = p.geometry;
  const TensorOptions options{.dtype = kFloat32, .device = device};
  const Tensor image = p.image_tensor(options), filter = p.filter_tensor(options), feature = p.feature_tensor(options);
  const Tensor transposed = call_conv_transpose(c, feature, filter, p.image_bias_tensor(options));
  const Tensor convolved = conv(image, filter, p.feature_bias_tensor(options), g);
  const Tensor weight = conv_weight(image, feature, g);
  ASSERT_EQ(transposed.shape(), image_shape(g));
  if (multiply_adds(c) <= kWholeResult) {
    expect_values("conv_transpose", transposed, oracle::conv_transpose(g, p.feature, p.filter, p.image_bias));
    expect_values("conv", convolved, oracle::conv(g, p.image, p.filter, p.feature_bias));
    expect_values("conv_weight", weight, oracle::conv_weight(g, p.image, p.feature));
    return;
  }
  expect_sampled("conv_transpose", transposed,
                 [&](std::int64_t i) { return oracle::conv_transpose_at(g, p.feature, p.filter, p.image_bias, i); });
  expect_sampled("conv", convolved,
                 [&](std::int64_t i) { return oracle::conv_at(g, p.image, p.filter, p.feature_bias, i); });
  expect_sampled("conv_weight", weight,
                 [&](std::int64_t i) { return oracle::conv_weight_at(g, p.image, p.feature, i); });
}

void check_shard(std::size_t shard, Device device) {
  const auto cases = load_shapes();
  if (!cases) GTEST_SKIP() << "ADJOINT_CASES_DIR names no folder with real_network_shapes.json";
  ASSERT_EQ(cases->size(), kShapes);
  for (std::size_t i = shard; i < cases->size(); i += kShards) {
    SCOPED_TRACE((*cases)[i]);
    check((*cases)[i], device);
  }
}

class ConvRealShapes : public ::testing::TestWithParam<std::size_t> {};
TEST_P(ConvRealShapes, EqualTheOracle) { check_shard(GetParam(), kCPU); }
INSTANTIATE_TEST_SUITE_P(Shards, ConvRealShapes, ::testing::Range(std::size_t{0}, kShards));

class ConvRealShapesCuda : public ::testing::TestWithParam<std::size_t> {};
TEST_P(ConvRealShapesCuda, EqualTheOracle) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  check_shard(GetParam(), kCUDA);
}
INSTANTIATE_TEST_SUITE_P(Shards, ConvRealShapesCuda, ::testing::Range(std::size_t{0}, kShards));

}  // namespace
}  // namespace adjoint::testing
