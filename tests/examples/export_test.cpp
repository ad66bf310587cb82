// The verb `export` of each program: its file has the network's results, at another size.
#include <adjoint/tests/examples/example_tool.h>

#include <adjoint/core/tensor/tensor.h>
#if EXAMPLES_WITH_ONNX
#include <adjoint/nn/onnx/onnx_model.h>
#endif

#include <ostream>

namespace examples {
namespace {

using adjoint::Shape;

struct Case {
  const char *program, *small;
  Shape input, output;
  adjoint::DType dtype = adjoint::kFloat32;  // the input's
};
void PrintTo(const Case& one, std::ostream* os) { *os << one.program; }

class ExportTool : public ExampleTool, public testing::WithParamInterface<Case> {
 protected:
  ExportTool() : ExampleTool(GetParam().program) {}
};

TEST_P(ExportTool, WritesAModelThatRuns) {
  const std::string out = (folder_ / "out").string(), model = " '" + out + "/model.safetensors' ",
                    file = (folder_ / "model.onnx").string();
  ASSERT_EQ(run("train --steps 1 --device cpu --out '" + out + "' " + GetParam().small), 0) << output_;
  EXPECT_EQ(run("export" + model + "'" + file + ".txt'"), 1);
  EXPECT_NE(output_.find("must end in .onnx"), std::string::npos) << output_;
#if EXAMPLES_WITH_ONNX
  ASSERT_EQ(run("export" + model + "'" + file + "'"), 0) << output_;
  const auto loaded = adjoint::nn::load_onnx(file);
  EXPECT_EQ(loaded(adjoint::Tensor::full(GetParam().input, 0.25).to(GetParam().dtype)).shape(), GetParam().output);
#else
  EXPECT_EQ(run("export" + model + "'" + file + "'"), 1);
  EXPECT_NE(output_.find("libonnx-dev"), std::string::npos) << output_;
#endif
}

INSTANTIATE_TEST_SUITE_P(
    Examples, ExportTool,
    testing::Values(
        Case{"super_resolution", "--batch 2 --patch 8 --features 4 --layers 1", {2, 1, 9, 7}, {2, 1, 18, 14}},
        Case{"segmentation", "--batch 2 --patch 16 --features 8 --depth 1", {2, 3, 32, 40}, {2, 5, 32, 40}},
        Case{"diffusion",
             "--batch 2 --features 8 --sampling-steps 1 --compared 2 --classifier-steps 2",
             {2, 3, 32, 32},
             {2, 3, 32, 32}},
        Case{"gan", "--batch 4 --features 4 --latent 8 --classifier-steps 2", {3, 8}, {3, 3, 32, 32}},
        Case{"autoencoder", "--batch 4 --features 4 --latent 8", {2, 3, 32, 32}, {2, 3, 32, 32}},
        Case{"vocoder",
             "--batch 2 --network tiny --channels 8 --sample-rate 4000 --segment 2048 "
             "--discriminator-channels 1 --clock 0",
             {2, 80, 5},
             {2, 1, 1280}},
        Case{"amp",
             "--batch 2 --channels 4 --layers 4 --sample-rate 8000 --segment 256 --seconds 2",
             {2, 1, 70},
             {2, 1, 70}},
        Case{"text", "--batch 2 --layers 1 --heads 2 --width 8 --context 8", {3, 8}, {3, 8, 256}, adjoint::kInt64}),
    [](const auto& one) { return std::string(one.param.program); });

}  // namespace
}  // namespace examples
