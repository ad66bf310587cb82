#include <adjoint/adjoint.h>

using namespace adjoint;

int main() {
  manual_seed(0);
  const Tensor textures = interpolate(Tensor::rand({128, 1, 12, 12}), {.size = 32, .mode = Interpolation::kBicubic});
  const data::TensorDataset dataset({interpolate(textures, {.size = 16, .mode = Interpolation::kArea}), textures});
  data::DataLoader loader(dataset, {.batch_size = 8, .shuffle = true, .device = default_device()});

  nn::Sequential net{nn::Conv2d(1, 16, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(16, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(default_device());
  const optim::AdamWOptions no_decay{.lr = 1e-2, .weight_decay = 0.0};
  optim::AdamW adam(optim::group_by<optim::AdamWOptions>(net.named_parameters(), {{"*.bias", no_decay}}), {.lr = 1e-2});
  optim::CosineAnnealingLR schedule(adam, {.T_max = 20 * loader.size(), .warmup = {.steps = 8}});
  optim::EMA ema(net, {.decay = 0.99, .warmup = true});
  data::Log log("run");  // run/scalars.csv
  nn::Checkpoint checkpoint("run", {.keep_last = 2, .background = true});
  checkpoint.add("net", net);
  checkpoint.add("adam", adam);
  checkpoint.add("schedule", schedule);
  checkpoint.add("ema", ema);
  checkpoint.add("loader", loader);
  checkpoint.add_random_state();

  for (std::int64_t epoch = checkpoint.resume().value_or(0); epoch < 20; checkpoint.save(++epoch)) {
    for (const auto& [low, high] : loader) {
      Tape tape;
      const AutocastGuard autocast(kBFloat16);  // convolutions in bfloat16; weights, their gradients, loss in float32
      const Tensor loss = mse_loss(net(low), high);
      tape.backward(loss);
      adam.step({.max_norm = 1.0});
      adam.zero_grad();
      schedule.step();
      ema.update();
      log.add_scalar("loss", loss.item<double>(), schedule.last_epoch());
    }
  }
}
