#include <adjoint/adjoint.h>

#include <iostream>
#include <utility>
#include <vector>

int main() {
  adjoint::manual_seed(0);
  const adjoint::TensorOptions options{.device = adjoint::default_device()};

  std::vector<std::pair<adjoint::Tensor, adjoint::Tensor>> loader;
  for (int batch = 0; batch < 16; ++batch) {
    const adjoint::Tensor texture = adjoint::Tensor::rand({8, 1, 12, 12}, options);
    const adjoint::Tensor high = adjoint::interpolate(texture, {.size = 32, .mode = adjoint::Interpolation::kBicubic});
    loader.emplace_back(
        adjoint::interpolate(high, {.size = 16, .mode = adjoint::Interpolation::kBilinear, .antialias = true}), high);
  }

  adjoint::nn::Sequential net{adjoint::nn::Conv2d(1, 16, {.kernel_size = 3, .padding = 1}), adjoint::nn::ReLU(),
                              adjoint::nn::ConvTranspose2d(16, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(options.device);
  adjoint::optim::Adam adam(net.parameters(), {.lr = 1e-2});

  for (int epoch = 0; epoch < 5; ++epoch) {
    double sum = 0;
    for (const auto& [low, high] : loader) {
      adjoint::Tape tape;  // records while it lives
      adjoint::Tensor loss = adjoint::mse_loss(net(low), high);
      tape.backward(loss);
      adam.step();
      adam.zero_grad();
      sum += loss.item<double>();
    }
    std::cout << "epoch " << epoch << ": loss " << sum / static_cast<double>(loader.size()) << '\n';
  }
  adjoint::nn::save_safetensors("upscale.safetensors", net);
}
