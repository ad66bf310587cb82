// Tests of functions, written by save_onnx one by one and run by ONNX Runtime together.
#pragma once

#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/tests/onnx/onnx_runtime.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {

class OnnxCalls : public TempFolder {
 protected:
  using In = const std::vector<Tensor>&;
  using Out = std::vector<Tensor>;

  void SetUp() override {
    if (const std::string reason = no_onnx_runtime(); !reason.empty()) GTEST_SKIP() << reason;
  }

  void add(std::string name, const std::function<Out(In)>& f, const std::vector<Tensor>& inputs) {
    const auto path = folder / (std::to_string(runs_.size()) + ".onnx");
    nn::save_onnx(path, f, inputs);
    runs_.push_back({.model = path, .inputs = inputs, .expected = f(inputs), .name = std::move(name)});
  }

  /// Errors are relative to a result's largest element.
  void run(double tolerance) {
    const std::vector<OnnxResult> results = run_onnx(runs_, folder);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      SCOPED_TRACE(runs_[i].name);
      EXPECT_EQ(results[i].error, "");
      for (std::size_t k = 0; k < results[i].outputs.size(); ++k) {
        const Tensor &found = results[i].outputs[k], &expected = runs_[i].expected[k];
        EXPECT_EQ(found.dtype(), expected.dtype());
        ASSERT_EQ(found.shape(), expected.shape());
        if (expected.numel() == 0) continue;
        const double most = expected.abs().max().item<double>();
        EXPECT_LE((found - expected).abs().max().item<double>(), tolerance * (1.0 + most));
      }
    }
  }

 private:
  std::vector<OnnxRun> runs_;
};

}  // namespace adjoint::testing
