// docs/deploy.md's program: the three ways out of the training loop agree.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/nn/onnx/onnx_model.h>
#include <adjoint/nn/plan.h>
#include <adjoint/nn/streaming.h>
#include <adjoint/tests/support/temp_folder.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

class Deploy : public testing::TempFolder {};

TEST_F(Deploy, HasThreeWaysThatAgree) {
  manual_seed(1);
  nn::Sequential net{nn::Conv1d(1, 8, {.kernel_size = 9, .padding = 4}), nn::Tanh(),
                     nn::Conv1d(8, 1, {.kernel_size = 9, .padding = 4})};
  // ... training ...
  net.eval();

  // A file, for other engines.
  nn::save_onnx(folder / "net.onnx", net, {Tensor::zeros({1, 1, 480})},
                {.input_names = {"sound"}, .dynamic_axes = {{.axis = 2, .name = "samples"}}});

  // Calls of one size, without allocations.
  nn::Plan plan(net, {Tensor::zeros({1, 1, 480})});
  const Tensor sound = Tensor::randn({1, 1, 480});
  const Tensor planned = plan.run({sound})[0].clone();  // the plan overwrites its outputs

  // A signal that arrives in blocks.
  nn::Streaming stream(net, {.block = 64});
  std::vector<Tensor> parts;
  for (const Tensor& block : split(sound, 64, 2)) parts.push_back(stream(block));
  parts.push_back(stream.flush());
  const Tensor streamed = cat(parts, 2).narrow(2, stream.latency(), sound.size(2));

  const Tensor expected = net(sound);
  testing::expect_same_bits("plan", planned, expected);
  testing::expect_near("stream", streamed, expected.to(kFloat64).to_vector<double>(), 1e-6);
  nn::OnnxModel loaded = nn::load_onnx(folder / "net.onnx");
  loaded.eval();
  testing::expect_near("file", loaded(sound), expected.to(kFloat64).to_vector<double>(), 1e-6);
  EXPECT_EQ(stream.latency(), 8);
}

}  // namespace
}  // namespace adjoint
