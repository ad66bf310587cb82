// load_onnx: a loaded network trains as the one that was written, is written to the same bits again, and runs the
// operators that were written.
#include <adjoint/adjoint.h>
#include <adjoint/nn/onnx/onnx.h>
#include <adjoint/nn/onnx/onnx_model.h>
#include <adjoint/nn/plan.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace adjoint {
namespace {

class LoadOnnxTraining : public testing::TempFolder {};

// Parameters' gradients, and buffers, by name, after a step in training mode.
template <class Net>
std::map<std::string, std::vector<float>> after_a_step(Net& net, const Tensor& x) {
  net.train();
  const Tape tape;
  net(x).square().sum().backward();
  std::map<std::string, std::vector<float>> found;
  for (const auto& [name, parameter] : net.named_parameters())
    found[name] = parameter.grad().template to_vector<float>();
  for (const auto& [name, buffer] : net.named_buffers()) {
    if (buffer.is_floating_point()) found[name] = buffer.template to_vector<float>();
  }
  return found;
}

TEST_F(LoadOnnxTraining, GivesTheGradientsAndStatisticsOfTheNetwork) {
  nn::Sequential net(nn::Conv2d(2, 3, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(3), nn::ReLU(),
                     nn::MaxPool2d(2), nn::ConvTranspose2d(3, 2, {.kernel_size = 2, .stride = 2}));
  net.eval();
  const Tensor x = Tensor::randn({2, 2, 4, 4});
  nn::save_onnx(folder / "net.onnx", net, {x});
  nn::OnnxModel loaded = nn::load_onnx(folder / "net.onnx");
  const auto expected = after_a_step(net, x), found = after_a_step(loaded, x);
  EXPECT_EQ(expected.at("1.running_mean").size(), 3U);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name), values) << name;
  }
}

TEST_F(LoadOnnxTraining, IsWrittenAgainWithTheSameResults) {
  nn::Sequential net(nn::Conv2d(2, 3, {.kernel_size = 3, .padding = 1}), nn::GELU(), nn::Flatten(), nn::Linear(48, 4));
  net.eval();
  const Tensor x = Tensor::randn({2, 2, 4, 4});
  nn::save_onnx(folder / "net.onnx", net, {x});
  nn::OnnxModel once = nn::load_onnx(folder / "net.onnx");
  once.eval();
  nn::save_onnx(folder / "again.onnx", once, {x});
  nn::OnnxModel twice = nn::load_onnx(folder / "again.onnx");
  twice.eval();
  EXPECT_EQ(once.state_dict().size(), twice.state_dict().size());
  EXPECT_EQ(once(x).to_vector<float>(), twice(x).to_vector<float>());
  EXPECT_LE((once(x) - net(x)).abs().max().item(), 1e-6);
}

// Exporters write a channel's slope with or without an axis for the batch. A comparison, a product and a choice would
// give the same results in three passes.
TEST_F(LoadOnnxTraining, RunsPReLUAsOneOperator) {
  const Tensor x = Tensor::randn({2, 3, 4, 5}), slope = Tensor::randn({3});
  nn::PReLU net({.num_parameters = 3});
  net.weight = slope;
  net.eval();
  nn::save_onnx(folder / "net.onnx", net, {x});
  nn::OnnxModel loaded = nn::load_onnx(folder / "net.onnx");
  loaded.eval();
  nn::Plan plan(loaded, {x});
  EXPECT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan.run({x})[0].to_vector<float>(), net(x).to_vector<float>());
}

}  // namespace
}  // namespace adjoint
