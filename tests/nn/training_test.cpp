// Everything together: a network that learns to enlarge, and a run that was saved and resumed.
#include <adjoint/adjoint.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace adjoint {
namespace {

namespace fs = std::filesystem;

struct Trainer {
  nn::Sequential net{nn::Conv2d(1, 4, {.kernel_size = 3, .padding = 1}), nn::PReLU(),
                     nn::ConvTranspose2d(4, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  optim::AdamW adam{net.parameters(), {.lr = 2e-2}};
  optim::CosineAnnealingLR schedule{adam, {.T_max = 200, .warmup = {.steps = 5}}};

  // One update on pictures that the step's number decides; returns the loss.
  float train(int step) {
    manual_seed(static_cast<std::uint64_t>(step));
    const Tensor low = Tensor::rand({4, 1, 6, 6});
    const Tensor high = interpolate(low, {.size = {12, 12}, .mode = Interpolation::kBilinear});
    Tape tape;
    const Tensor loss = mse_loss(net(low), high);
    tape.backward(loss);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    adam.step();
    adam.zero_grad();
    schedule.step();
    return loss.item<float>();
  }
};

TEST(Training, ANetworkLearnsToEnlarge) {
  manual_seed(11);
  Trainer run;
  const float first = run.train(0);
  float last = first;
  for (int step = 1; step < 200; ++step) last = run.train(step);
  EXPECT_LT(last, first / 50.0F);
}

NamedTensors prefixed(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.emplace_back(prefix + name, tensor);
  return all;
}

NamedTensors with_prefix(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

TEST(Training, ASavedRunResumesToTheBit) {
  const fs::path path = fs::path(::testing::TempDir()) / "adjoint_training.safetensors";
  manual_seed(12);
  Trainer run;
  for (int step = 0; step < 8; ++step) run.train(step);
  NamedTensors state = prefixed("model.", run.net.state_dict());
  for (const auto& entry : prefixed("optimizer.", run.adam.state_dict())) state.push_back(entry);
  for (const auto& entry : prefixed("schedule.", run.schedule.state_dict())) state.push_back(entry);
  nn::save_safetensors(path, state, {{"step", "8"}});

  manual_seed(99);
  Trainer resumed;
  const nn::Safetensors file = nn::load_safetensors(path);
  fs::remove(path);
  resumed.net.load_state_dict(with_prefix("model.", file.tensors));
  resumed.adam.load_state_dict(with_prefix("optimizer.", file.tensors));
  resumed.schedule.load_state_dict(with_prefix("schedule.", file.tensors));
  for (int step = std::stoi(file.metadata.at("step")); step < 14; ++step) {
    EXPECT_EQ(run.train(step), resumed.train(step)) << "step " << step;
  }
  const NamedTensors expected = run.net.state_dict(), actual = resumed.net.state_dict();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].second.to_vector<float>(), expected[i].second.to_vector<float>()) << expected[i].first;
  }
}

TEST(TrainingCuda, ANetworkLearnsToEnlarge) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  manual_seed(13);
  nn::ConvTranspose2d up(1, 1, {.kernel_size = 4, .stride = 2, .padding = 1});
  optim::Adam adam(up.parameters(), {.lr = 5e-2});
  up.to(kCUDA);
  const fs::path path = fs::path(::testing::TempDir()) / "adjoint_training_cuda.safetensors";
  float first = 0.0F, last = 0.0F;
  for (int step = 0; step < 100; ++step) {
    const Tensor low = Tensor::rand({4, 1, 6, 6}, {.device = kCUDA});
    const Tensor high = interpolate(low, {.size = {12, 12}, .mode = Interpolation::kBilinear});
    Tape tape;
    const Tensor loss = mse_loss(up(low), high);
    tape.backward(loss);
    optim::clip_grad_norm_(up.parameters(), 1.0);
    adam.step();
    adam.zero_grad();
    last = loss.item<float>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first / 10.0F);
  nn::save_safetensors(path, up);
  nn::ConvTranspose2d other(1, 1, {.kernel_size = 4, .stride = 2, .padding = 1});
  other.to(kCUDA);
  nn::load_safetensors(path, other);
  fs::remove(path);
  EXPECT_EQ(other.weight.device(), Device(kCUDA));
  EXPECT_EQ(other.weight.to_vector<float>(), up.weight.to_vector<float>());
}

}  // namespace
}  // namespace adjoint
