#include <adjoint/adjoint.h>

#include <cstdio>

using namespace adjoint;

int main() {
  distributed::init();  // default_device() is this process's GPU from here on
  manual_seed(0);
  const Tensor textures = interpolate(Tensor::rand({128, 1, 12, 12}), {.size = 32, .mode = Interpolation::kBicubic});
  const data::TensorDataset dataset({interpolate(textures, {.size = 16, .mode = Interpolation::kArea}), textures});
  data::DistributedSampler sampler(dataset.size(), distributed::rank(), distributed::world_size());
  data::DataLoader loader(dataset, {.batch_size = 8, .sampler = &sampler, .device = default_device()});

  nn::Sequential net{nn::Conv2d(1, 16, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(16, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(default_device());
  distributed::DataParallel model(net);  // parameters and buffers become rank 0's
  optim::Adam adam(net.parameters(), {.lr = 1e-2});

  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (const auto& [low, high] : loader) {
      Tape tape;
      const Tensor loss = mse_loss(model(low), high);
      tape.backward(loss);  // .grad() of every parameter is the average of all ranks'
      adam.step();
      adam.zero_grad();
      sum += distributed::all_reduce(loss.detach(), distributed::ReduceOp::kAvg).item<double>();
    }
    if (distributed::rank() == 0) std::printf("epoch %d: loss %g\n", epoch, sum / static_cast<double>(loader.size()));
  }
}
