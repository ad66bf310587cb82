// load_onnx on the cases of ONNX's own backend tests (backend_cases), and on files of PyTorch's exporter (torch_cases).
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx_model.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/wait.h>

namespace adjoint {
namespace {

using nlohmann::json;

// Operators, and single cases, that load_onnx refuses, with the reason.
const std::map<std::string, std::string>& left_out() {
  constexpr const char* kDType = "the library lacks one of its dtypes";
  constexpr const char* kString = "it has strings";
  constexpr const char* kSequence = "it has sequences or optional values";
  constexpr const char* kQuantised = "it is quantised";
  constexpr const char* kOptimiser = "the library trains with its own optimisers";
  constexpr const char* kRandom = "its numbers are random";
  constexpr const char* kPi = "the case takes 3.1415 for pi";
  constexpr const char* kTruncated = "the case truncates to bfloat16, and the library rounds";
  constexpr const char* kDeclared = "the case has a tensor of another shape than its model declares";
  constexpr const char* kFourDigits = "the case rounds its results to four digits";
  constexpr const char* kFractional = "the case divides by a fractional extent, unlike ONNX's text and ONNX Runtime";
  static const std::map<std::string, std::string> reasons = {
      {"Adagrad", kOptimiser},
      {"Adam", kOptimiser},
      {"Bernoulli", kRandom},
      {"ConvInteger", kQuantised},
      {"DequantizeLinear", kQuantised},
      {"DynamicQuantizeLinear", kQuantised},
      {"MatMulInteger", kQuantised},
      {"Momentum", kOptimiser},
      {"NonMaxSuppression", "it loops over boxes"},
      {"OptionalGetElement", kSequence},
      {"OptionalHasElement", kSequence},
      {"QLinearConv", kQuantised},
      {"QLinearMatMul", kQuantised},
      {"QuantizeLinear", kQuantised},
      {"RandomUniformLike", kRandom},
      {"RoiAlign", "the library has no such operator"},
      {"Scan", "the library has no such loop"},
      {"SequenceInsert", kSequence},
      {"SequenceLength", kSequence},
      {"SequenceMap", kSequence},
      {"StringNormalizer", kString},
      {"TfIdfVectorizer", kString},
      {"test_bitshift_left_uint16.0", kDType},
      {"test_bitshift_left_uint32.0", kDType},
      {"test_bitshift_left_uint64.0", kDType},
      {"test_bitshift_right_uint16.0", kDType},
      {"test_bitshift_right_uint32.0", kDType},
      {"test_bitshift_right_uint64.0", kDType},
      {"test_blackmanwindow.0", kPi},
      {"test_blackmanwindow_expanded.0", kPi},
      {"test_blackmanwindow_symmetric.0", kPi},
      {"test_blackmanwindow_symmetric_expanded.0", kPi},
      {"test_cast_FLOAT_to_BFLOAT16.0", kTruncated},
      {"test_cast_FLOAT_to_STRING.0", kString},
      {"test_cast_STRING_to_FLOAT.0", kString},
      {"test_castlike_BFLOAT16_to_FLOAT.0", kDeclared},
      {"test_castlike_BFLOAT16_to_FLOAT_expanded.0", kDeclared},
      {"test_castlike_FLOAT_to_BFLOAT16.0", kDeclared},
      {"test_castlike_FLOAT_to_BFLOAT16_expanded.0", kDeclared},
      {"test_castlike_FLOAT_to_STRING.0", kString},
      {"test_castlike_FLOAT_to_STRING_expanded.0", kString},
      {"test_castlike_STRING_to_FLOAT.0", kString},
      {"test_castlike_STRING_to_FLOAT_expanded.0", kString},
      {"test_clip_default_int8_inbounds.0", kDType},
      {"test_clip_default_int8_max.0", kDType},
      {"test_clip_default_int8_min.0", kDType},
      {"test_dynamicquantizelinear_expanded.0", kQuantised},
      {"test_dynamicquantizelinear_max_adjusted_expanded.0", kQuantised},
      {"test_dynamicquantizelinear_min_adjusted_expanded.0", kQuantised},
      {"test_gridsample_bicubic.0", kFourDigits},
      {"test_hammingwindow.0", kPi},
      {"test_hammingwindow_expanded.0", kPi},
      {"test_hammingwindow_symmetric.0", kPi},
      {"test_hammingwindow_symmetric_expanded.0", kPi},
      {"test_hannwindow.0", kPi},
      {"test_hannwindow_expanded.0", kPi},
      {"test_hannwindow_symmetric.0", kPi},
      {"test_hannwindow_symmetric_expanded.0", kPi},
      {"test_identity_opt.0", kSequence},
      {"test_identity_sequence.0", kSequence},
      {"test_if_opt.0", kSequence},
      {"test_if_seq.0", kSequence},
      {"test_loop13_seq.0", kSequence},
      {"test_loop16_seq_none.0", kSequence},
      {"test_max_int16.0", kDType},
      {"test_max_int8.0", kDType},
      {"test_max_uint16.0", kDType},
      {"test_max_uint32.0", kDType},
      {"test_max_uint64.0", kDType},
      {"test_min_int16.0", kDType},
      {"test_min_int8.0", kDType},
      {"test_min_uint16.0", kDType},
      {"test_min_uint32.0", kDType},
      {"test_min_uint64.0", kDType},
      {"test_mod_mixed_sign_int16.0", kDType},
      {"test_mod_mixed_sign_int8.0", kDType},
      {"test_mod_uint16.0", kDType},
      {"test_mod_uint32.0", kDType},
      {"test_mod_uint64.0", kDType},
      {"test_pow_types_float32_uint32.0", kDType},
      {"test_pow_types_float32_uint64.0", kDType},
      {"test_resize_downsample_scales_cubic_align_corners.0", kFractional},
      {"test_resize_downsample_scales_linear_align_corners.0", kFractional},
      {"test_training_dropout.0", kRandom},
      {"test_training_dropout_default.0", kRandom},
      {"test_training_dropout_default_mask.0", kRandom},
      {"test_training_dropout_mask.0", kRandom},
  };
  return reasons;
}

// Null for a dtype that the library does not have.
std::optional<Tensor> read(const json& tensor) {
  if (tensor.is_null()) return Tensor();
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool}) {
    if (to_string(dtype) != tensor["dtype"]) continue;
    const std::vector<std::int64_t> extents = tensor["shape"];
    Tensor x = Tensor::zeros(Shape(extents), {.dtype = dtype});
    std::ifstream file(tensor["file"].get<std::string>(), std::ios::binary);
    const auto bytes = static_cast<std::streamsize>(static_cast<std::size_t>(x.numel()) * element_size(dtype));
    if (bytes > 0) file.read(static_cast<char*>(x.raw_mutable_data()), bytes);
    return x;
  }
  return std::nullopt;
}

// Why the results differ; empty: they do not.
std::string difference(const Tensor& found, const Tensor& expected, double rtol, double atol) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape())
    return to_string(found.dtype()) + " " + to_string(found.shape()) + " for " + to_string(expected.dtype()) + " " +
           to_string(expected.shape());
  const std::vector<double> a = found.to(kFloat64).to_vector<double>(), e = expected.to(kFloat64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) || std::abs(a[i] - e[i]) <= atol + rtol * std::abs(e[i]);
    if (!same) return std::to_string(a[i]) + " for " + std::to_string(e[i]) + " at element " + std::to_string(i);
  }
  return "";
}

// The error of a case, or how its results differ; empty: it passes.
std::string run(const json& c) {
  std::vector<Tensor> inputs;
  for (const json& input : c["inputs"]) {
    const std::optional<Tensor> x = read(input);
    if (!x) return "a dtype that the library does not have";
    inputs.push_back(*x);
  }
  try {
    nn::OnnxModel model = nn::load_onnx(c["model"].get<std::string>());
    if (c["name"].get<std::string>().find("train") == std::string::npos) model.eval();
    const PauseTape unrecorded;
    const std::vector<Tensor> found = model(inputs);
    for (std::size_t i = 0; i < found.size() && !c.contains("refused"); ++i) {
      const std::optional<Tensor> expected = read(c["outputs"][i]);
      if (!expected) return "a dtype that the library does not have";
      // Half precision keeps the tolerance of ONNX's own test.
      const double rtol = expected->dtype() == kFloat16 ? c["rtol"].get<double>() : 1e-5;
      const std::string differs = difference(found[i], *expected, rtol, std::max(1e-6, c["atol"].get<double>()));
      if (!differs.empty()) return "output " + std::to_string(i) + ": " + differs;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class LoadOnnxCases : public testing::TempFolder {};

TEST_F(LoadOnnxCases, PassOrAreLeftOutForAReason) {
  const std::string make =
      std::string("/usr/bin/python3 '") + ADJOINT_BACKEND_CASES + "' '" + folder.string() + "' 2>/dev/null";
  if (std::system("/usr/bin/python3 -c 'import onnx.backend.test' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-onnx is not installed";
  ASSERT_EQ(std::system(make.c_str()), 0);
  const char* const only = std::getenv("ADJOINT_ONNX_ONLY");  // an operator, to look at
  const json cases = json::parse(std::ifstream(folder / "cases.json"));
  std::size_t passed = 0;
  manual_seed(0);  // or a case of random numbers may happen to pass
  for (const json& c : cases) {
    const std::string name = c["name"], op = c["operator"];
    if (only != nullptr && op != only) continue;
    auto reason = left_out().find(op);
    if (reason == left_out().end()) reason = left_out().find(name);
    std::string failure = run(c);
    if (c.contains("refused"))
      failure = failure.find(c["refused"]) != std::string::npos ? "" : "no refusal: " + failure;
    if (reason == left_out().end()) {
      EXPECT_EQ(failure, "") << name;
    } else {
      EXPECT_NE(failure, "") << name << " passes, and is listed as left out: " << reason->second;
    }
    if (failure.empty()) ++passed;
  }
  std::printf("%zu of %zu cases pass\n", passed, cases.size());
}

TEST_F(LoadOnnxCases, RunFilesOfPyTorchsExporter) {
  const std::string make =
      std::string("/usr/bin/python3 '") + ADJOINT_TORCH_CASES + "' '" + folder.string() + "' >/dev/null 2>&1";
  const int status = std::system(make.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "python3-torch is not installed";
  ASSERT_EQ(status, 0);
  for (const json& c : json::parse(std::ifstream(folder / "cases.json"))) EXPECT_EQ(run(c), "") << c["name"];
}

}  // namespace
}  // namespace adjoint
