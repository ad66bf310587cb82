// A program as PyTorch's users write it, which docs/features.md quotes.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <iostream>

namespace adjoint::testing {
namespace {

class AsPyTorch : public TempFolder {};

TEST_F(AsPyTorch, AProgramReadsAlike) {
  ::testing::internal::CaptureStdout();
  const Device device("cpu");  // or "cuda:1"
  manual_seed(1);
  const Tensor x = randn({8, 3, 16, 16}).to(device, kFloat32), classes = arange(8) % 4;  // int64, as in PyTorch

  nn::Sequential net{nn::Conv2d(3, 8, 3, {.padding = "same"}), nn::Upsample(2)};
  net.push_back(nn::Conv2d(8, 4, {3, 3}, {.padding = 1}));
  net[0].requires_grad_(false);
  optim::AdamW optimizer(net.parameters(), 1e-3);
  for (auto group : optimizer.param_groups()) group.set_lr(3e-4);

  Tape tape;
  const Tensor scores = gelu(net(x), "tanh").mean({2, 3}).view(-1, 4);
  const Tensor loss = cross_entropy(scores, classes);
  backward(loss);
  optimizer.step();
  std::cout << "loss " << loss.item() << ", sizes " << scores.sizes() << '\n';

  Tensor average = zeros({8, 3, 3, 3});
  average.lerp_(net.state_dict()["0.weight"].cpu(), 0.1).clamp_(-1, 1);
  const Tensor q = rand({1, 2, 5, 4});
  const Tensor attended = scaled_dot_product_attention(q, q, q, {.is_causal = true});

  data::save_image(data::make_grid(x, {.nrow = 4, .normalize = true}), folder / "grid.png");
  const data::TensorDataset dataset({x, classes});
  const auto parts = data::random_split(dataset, {0.75, 0.25});
  const data::Subset first(dataset, {0, 2});
  const data::ConcatDataset both({first, parts[1]});
  EXPECT_EQ(both.size(), 4);
  EXPECT_EQ(attended.shape(), q.shape());
  EXPECT_FALSE(net.parameters()[0].requires_grad());
  EXPECT_TRUE(::testing::internal::GetCapturedStdout().starts_with("loss 1."));
}

}  // namespace
}  // namespace adjoint::testing
