// Every operator of the registry, written by save_onnx and run by ONNX Runtime.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/operator_cases.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace adjoint {
namespace {

using testing::OnnxResult;
using testing::OnnxRun;
using testing::OperatorCase;
using testing::OperatorExample;

// Those that ONNX does not have, functions or cases, with the reason that the Error gives.
const std::map<std::string, std::string>& unwritable() {
  static const std::string images = "GridSample of operator set 17 accepts images";
  static const std::map<std::string, std::string> functions = {
      {"grid_sample/volume", images},
      {"grid_sample/volume_nearest", images},
      {"grid_sample/volume_border", images},
      {"grid_sample/volume_reflection", images},
      // Elements decide their results' shapes.
      {"index/mask", "index, which reads elements"},
      {"index/mask_and_tensor", "index, which reads elements"},
      {"index/scalars", "index, which reads elements"},
      {"index_put_/mask", "index_put_, which reads elements"},
      {"masked_select", "masked_select, which reads elements"},
      {"nonzero", "nonzero, which reads elements"},
      {"one_hot/counted", "one_hot, which reads elements"},
      {"unique", "unique, which reads elements"},
      {"ctc_loss", "reads elements"},  // targets decide which nodes there are
      {"gradient_penalty", "a network must"},
      {"istft/window", "reads elements"},              // of a window that is an input, which must not be too small
      {"repeat_interleave/tensor", "reads elements"},  // repeats decide the result's shape
  };
  return functions;
}

// Operators whose results differ for infinite or NaN operands.
const std::map<std::string, std::string>& deviating() {
  static const std::string product = "ONNX or engines know it as a product with x, and -infinity times 0 is NaN";
  static const std::string root = "ONNX Runtime's Sqrt of infinity is NaN";
  static const std::map<std::string, std::string> functions = {
      {"silu", product},
      {"gelu", product},
      {"gelu_tanh", product},
      {"mish", product},
      {"hardswish", product},
      {"sqrt", root},
      {"rsqrt", root},
      {"normalize", root},
      {"erf", "ONNX Runtime's Erf of NaN is 1"},
      {"prelu", "ONNX Runtime's PRelu of infinities is NaN"},
  };
  return functions;
}

// Those whose examples with infinities or NaN ONNX Runtime computes otherwise, and which are left out.
const std::map<std::string, std::string>& only_finite() {
  static const std::string bins = "imaginary parts of the first and last bin, which do not count, are multiplied by 0";
  static const std::string maxima = "MaxPool passes over NaN, and some of its kernels over -infinity";
  static const std::map<std::string, std::string> functions = {
      {"max_pool1d", maxima},
      {"max_pool2d", maxima},
      {"max_pool1d_with_indices", maxima},
      {"max_pool2d_with_indices", maxima},
      {"max_pool3d", maxima},
      {"max_pool3d_with_indices", maxima},
      {"adaptive_max_pool3d", maxima},
      {"adaptive_max_pool3d_with_indices", maxima},
      {"adaptive_max_pool1d", maxima},
      {"adaptive_max_pool2d", maxima},
      {"adaptive_max_pool1d_with_indices", maxima},
      {"adaptive_max_pool2d_with_indices", maxima},
      {"grid_sample", "GridSample does not take NaN for the image's edge"},
      {"irfft", bins},
      {"irfft2", bins},
  };
  return functions;
}

// Those whose examples with NaN are left out.
const std::map<std::string, std::string>& only_ordered() {
  static const std::string search = "ArgMax passes over NaN", order = "TopK does not order NaN";
  static const std::map<std::string, std::string> functions = {
      {"max", search},    {"min", search}, {"argmax", search},  {"argmin", search}, {"sort", order},
      {"argsort", order}, {"topk", order}, {"kthvalue", order}, {"median", order},
  };
  return functions;
}

// Those whose examples without elements are left out.
const std::map<std::string, std::string>& only_filled() {
  static const std::string reduction = "ONNX Runtime's reductions leave axes where there are no elements";
  static const std::map<std::string, std::string> functions = {{"spectrogram", reduction},
                                                               {"mel_spectrogram", reduction}};
  return functions;
}

bool is_empty(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.numel() == 0; });
}
bool has_nan(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return isnan(x).any().item<bool>(); });
}
bool is_finite(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return isfinite(x).all().item<bool>(); });
}

std::string function_of(const OperatorCase& c) { return c.name.substr(0, c.name.find('/')); }

std::vector<std::pair<std::string, OperatorCase>> all_cases() {
  std::vector<std::pair<std::string, OperatorCase>> cases;
  for (const auto& family : testing::operator_families()) {
    for (const OperatorCase& c : family.cases) cases.emplace_back(family.name, c);
  }
  return cases;
}

// The result is compared where `operand` is finite, or everywhere if that is undefined.
bool is_close(const Tensor& actual, const Tensor& expected, double tolerance, const Tensor& operand) {
  if (actual.shape() != expected.shape() || actual.dtype() != expected.dtype()) return false;
  const std::vector<double> a = actual.to(kFloat64).to_vector<double>(), e = expected.to(kFloat64).to_vector<double>();
  const std::vector<double> x = operand.defined() ? operand.to(kFloat64).to_vector<double>() : std::vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!x.empty() && !std::isfinite(x[i])) continue;
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) ||
                      std::abs(a[i] - e[i]) <= tolerance * (1.0 + std::abs(e[i]));
    if (!same) return false;
  }
  return true;
}

class OnnxOperators : public testing::TempFolder {};

TEST_F(OnnxOperators, AreWrittenOrRefused) {
  if (const std::string reason = testing::no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
  const char* const only = std::getenv("ADJOINT_ONNX_ONLY");  // a family, or a function, to look at
  std::vector<OnnxRun> runs;
  std::vector<Tensor> compared;  // for each run, the operand of is_close
  for (const auto& [family, c] : all_cases()) {
    if (only != nullptr && function_of(c) != only && family != only) continue;
    for (const OperatorExample& example : testing::operator_examples(c)) {
      OnnxRun run;
      run.name = c.name + " " + std::to_string(runs.size());
      run.model = folder / (std::to_string(runs.size()) + ".onnx");
      for (const Tensor& x : example.inputs) run.inputs.push_back(x.dtype() == kFloat64 ? x.to(kFloat32) : x);
      if (only_filled().contains(function_of(c)) && is_empty(run.inputs)) continue;
      if (only_ordered().contains(function_of(c)) && has_nan(run.inputs)) continue;
      if (only_finite().contains(function_of(c)) && !is_finite(run.inputs)) continue;
      std::string error;
      try {
        run.expected = c.call(run.inputs);
        nn::save_onnx(run.model, c.call, run.inputs);
      } catch (const Error& e) {
        error = e.what();
      }
      auto refused = unwritable().find(c.name);
      if (refused == unwritable().end()) refused = unwritable().find(function_of(c));
      if (refused == unwritable().end()) {
        EXPECT_EQ(error, "") << run.name;
        if (!error.empty()) continue;
        compared.push_back(deviating().contains(function_of(c)) ? run.inputs[0] : Tensor());
        runs.push_back(std::move(run));
      } else if (!is_empty(run.inputs)) {
        EXPECT_NE(error.find(refused->second), std::string::npos) << run.name << ": " << error;
      }
    }
  }
  const std::vector<OnnxResult> results = testing::run_onnx(runs, folder);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!results[i].error.empty()) {
      ADD_FAILURE() << runs[i].name << ": " << results[i].error;
      continue;
    }
    for (std::size_t k = 0; k < runs[i].expected.size(); ++k) {
      EXPECT_TRUE(is_close(results[i].outputs[k], runs[i].expected[k], 1e-5, compared[i]))
          << runs[i].name << ", output " << k << ": got " << results[i].outputs[k] << "\nexpected "
          << runs[i].expected[k];
    }
  }
}

}  // namespace
}  // namespace adjoint
