// Elementwise operators in ONNX: their dtypes, and how they broadcast.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/elementwise_cases.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::ElementwiseCase;
using testing::OnnxResult;
using testing::OnnxRun;
using Tensors = std::vector<Tensor>;

class OnnxElementwise : public testing::TempFolder {};

TEST_F(OnnxElementwise, ComputesEveryDtype) {
  if (const std::string reason = testing::no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<OnnxRun> runs;
  std::vector<double> tolerances;
  for (const ElementwiseCase& c : testing::elementwise_cases()) {
    for (const DType dtype : testing::dtypes(c.takes)) {
      if (dtype == kBFloat16) continue;  // JavaScript has no such arrays
      OnnxRun run;
      run.model = folder / (std::to_string(runs.size()) + ".onnx");
      run.name = c.name + " of " + std::string(to_string(dtype));
      for (int i = 0; i < c.arity; ++i)
        run.inputs.push_back(Tensor::from_vector(testing::operand_values(c, dtype, 6, i), {2, 3}, {.dtype = dtype}));
      const auto f = [&](const Tensors& in) { return Tensors{c.call(in)}; };
      run.expected = f(run.inputs);
      nn::save_onnx(run.model, f, run.inputs);
      runs.push_back(std::move(run));
      tolerances.push_back(c.exact ? 0.0 : 4.0 * testing::tolerance(dtype));
    }
  }
  const std::vector<OnnxResult> results = testing::run_onnx(runs, folder);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (const std::string& error = results[i].error; !error.empty()) {
      // ONNX has these operators for float64, ONNX Runtime does not.
      const bool is_missing = runs[i].expected[0].dtype() == kFloat64 && error.find("find") != std::string::npos;
      EXPECT_TRUE(is_missing) << runs[i].name << ": " << error;
      continue;
    }
    const Tensor &found = results[i].outputs[0], &expected = runs[i].expected[0];
    ASSERT_EQ(found.dtype(), expected.dtype()) << runs[i].name;
    const Tensor apart = (found.to(kFloat64) - expected.to(kFloat64)).abs() / (expected.to(kFloat64).abs() + 1.0);
    EXPECT_LE(apart.max().item(), tolerances[i]) << runs[i].name << ": " << found << "\nexpected " << expected;
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(OnnxElementwise, BroadcastsWithoutExpand) {
  const Tensor bias = Tensor::randn({4}), scale = Tensor::randn({3, 1});
  const auto f = [&](const Tensors& x) {
    Tensor y = x[0] * scale + bias + x[1];
    y += x[1];
    return Tensors{where(y > x[1], y, 0.0)};
  };
  const auto repeats = [](const Tensors& x) { return Tensors{x[1].expand({2, 4}) * 2.0}; };
  std::vector<OnnxRun> runs{{.model = folder / "f", .name = "f"}, {.model = folder / "repeats", .name = "repeats"}};
  runs[0].inputs = {Tensor::randn({2, 3, 4}), Tensor::randn({1, 4})};
  runs[1].inputs = runs[0].inputs;
  runs[0].expected = f(runs[0].inputs);
  runs[1].expected = repeats(runs[1].inputs);
  nn::save_onnx(runs[0].model, f, runs[0].inputs);
  nn::save_onnx(runs[1].model, repeats, runs[1].inputs);
  EXPECT_EQ(bytes_of(runs[0].model).find("Expand"), std::string::npos);
  EXPECT_NE(bytes_of(runs[1].model).find("Expand"), std::string::npos);
  if (const std::string reason = testing::no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
  const std::vector<OnnxResult> results = testing::run_onnx(runs, folder);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ASSERT_EQ(results[i].error, "");
    ASSERT_EQ(results[i].outputs[0].shape(), runs[i].expected[0].shape());
    EXPECT_LE((results[i].outputs[0] - runs[i].expected[0]).abs().max().item(), 1e-5) << runs[i].name;
  }
}

// A batch of 1, at which nothing is expanded, and another.
TEST_F(OnnxElementwise, BroadcastsAtEverySize) {
  const Tensor position = Tensor::randn({1, 3, 4});
  const auto f = [&](const Tensors& x) { return Tensors{x[0] + position + x[0].narrow(1, 0, 1)}; };
  nn::save_onnx(folder / "f", f, {Tensor::randn({1, 3, 4})}, {.dynamic_axes = {{.axis = 0, .name = "batch"}}});
  EXPECT_EQ(bytes_of(folder / "f").find("Expand"), std::string::npos);
  if (const std::string reason = testing::no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
  const Tensor x = Tensor::randn({5, 3, 4});
  const std::vector<OnnxResult> results =
      testing::run_onnx({{.model = folder / "f", .inputs = {x}, .expected = f({x}), .name = "f"}}, folder);
  ASSERT_EQ(results[0].error, "");
  EXPECT_LE((results[0].outputs[0] - f({x})[0]).abs().max().item(), 1e-5);
}

}  // namespace
}  // namespace adjoint
