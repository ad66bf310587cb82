// A small training that goes on where it was killed: resume_training FOLDER STEPS WORKERS BACKGROUND DEVICE. Everything
// that it has learnt, and each loss, stands in FOLDER/final.safetensors when it is done.
#include <adjoint/adjoint.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace adjoint;

// Noise, another in each epoch.
class Noise final : public data::Dataset {
 public:
  std::int64_t size() const override { return 13; }
  data::Example get(std::int64_t index, Generator& generator) const override {
    Tensor input = Tensor::empty({2, 6, 6});
    fill_normal(input, static_cast<double>(index) / 13.0, 1.0, generator);
    return {input, input.sum({1, 2}) * 0.1};
  }
};

void train(const std::filesystem::path& folder, std::int64_t steps, int workers, bool background, Device device) {
  manual_seed(11);
  nn::Sequential net{nn::Conv2d(2, 4, {.kernel_size = 3}),
                     nn::BatchNorm2d(4),
                     nn::ReLU(),
                     nn::Dropout({.p = 0.3}),
                     nn::Flatten(),
                     nn::Linear(64, 2)};
  net.to(device);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  optim::CosineAnnealingLR schedule(adam, {.T_max = steps, .warmup = {.steps = 5}});
  optim::EMA ema(net, {.decay = 0.9, .warmup = true});
  const Noise noise;
  data::DataLoader loader(noise, {.batch_size = 3, .shuffle = true, .workers = workers, .seed = 7, .device = device});
  std::vector<double> losses;

  nn::Checkpoint checkpoint(folder, {.keep_last = 2, .keep_best = 1, .background = background});
  checkpoint.add("model", net);
  checkpoint.add("adam", adam);
  checkpoint.add("schedule", schedule);
  checkpoint.add("ema", ema);
  checkpoint.add("loader", loader);
  checkpoint.add("losses", losses);
  checkpoint.add_random_state();

  std::int64_t step = checkpoint.resume().value_or(0);
  while (step < steps) {
    const auto batch = loader.next();
    if (!batch) continue;  // an epoch's end
    Tape tape;
    const Tensor loss = mse_loss(net(batch->input), batch->target);
    tape.backward(loss);
    losses.push_back(loss.item<double>());
    adam.step();
    adam.zero_grad();
    schedule.step();
    ema.update();
    if (++step % 3 == 0 || step == steps) checkpoint.save(step, {.metric = losses.back()});
  }
  checkpoint.wait();

  NamedTensors all{{"losses", Tensor::from_vector(losses, {steps}, {.dtype = kFloat64})},
                   {"next", Tensor::rand({4}, {.device = device})}};
  const std::pair<std::string, NamedTensors> states[] = {{"model.", net.state_dict()},
                                                         {"adam.", adam.state_dict()},
                                                         {"schedule.", schedule.state_dict()},
                                                         {"ema.", ema.state_dict()}};
  for (const auto& [prefix, state] : states) {
    for (const auto& [name, tensor] : state) all.emplace_back(prefix + name, tensor);
  }
  nn::save_safetensors(folder / "final.safetensors", all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: resume_training FOLDER STEPS WORKERS BACKGROUND DEVICE\n";
    return 2;
  }
  try {
    train(argv[1], std::atoll(argv[2]), std::atoi(argv[3]), argv[4] == std::string("1"),
          argv[5] == std::string("cuda") ? kCUDA : kCPU);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
