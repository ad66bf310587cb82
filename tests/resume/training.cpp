// A small training that resumes where it was killed: resume_training FOLDER STEPS WORKERS BACKGROUND WHERE [FULL_AT].
// WHERE: cpu, cuda, or graph, a GPU with GraphedStep. When it is done, FOLDER/final.safetensors holds everything that
// it has learnt, and each loss. From step FULL_AT on the disk is full.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/full_disk.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
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

struct Settings {
  std::filesystem::path folder;
  std::int64_t steps;
  int workers;
  bool background;
  std::string where;
  std::int64_t full_at;
};

void train(const Settings& settings) {
  const auto& [folder, steps, workers, background, where, full_at] = settings;
  const Device device = where == "cpu" ? kCPU : kCUDA;
  manual_seed(11);
  nn::Sequential net{nn::Conv2d(2, 4, {.kernel_size = 3}),
                     nn::BatchNorm2d(4),
                     nn::ReLU(),
                     nn::Dropout({.p = 0.3}),
                     nn::Flatten(),
                     nn::Linear(64, 2)};
  net.to(device);
  const optim::AdamWOptions slow{.lr = 0.002, .weight_decay = 0.0};
  optim::AdamW adam(optim::group_by<optim::AdamWOptions>(net.named_parameters(), {{"*.bias", slow}}), {.lr = 0.01});
  optim::CosineAnnealingLR schedule(adam, {.T_max = steps, .warmup = {.steps = 5}});
  optim::EMA ema(net, {.decay = 0.9, .warmup = true});
  optim::GradScaler scaler({.growth_interval = 9});  // so that it often grows too large and skips a step
  const Noise noise;
  data::DataLoader loader(noise, {.batch_size = 3, .shuffle = true, .workers = workers, .seed = 7, .device = device});
  std::vector<double> losses;

  nn::Checkpoint checkpoint(folder, {.keep_last = 2, .keep_best = 1, .background = background});
  checkpoint.add("model", net);
  checkpoint.add("adam", adam);
  checkpoint.add("schedule", schedule);
  checkpoint.add("ema", ema);
  checkpoint.add("scaler", scaler);
  checkpoint.add("loader", loader);
  checkpoint.add("losses", losses);
  checkpoint.add_random_state();

  const auto update = [&](const std::vector<Tensor>& batch) -> std::vector<Tensor> {
    adam.zero_grad();
    Tape tape;
    Tensor loss;
    {
      const AutocastGuard autocast(kFloat16);
      loss = mse_loss(net(batch[0]), batch[1]);
    }
    tape.backward(scaler.scale(loss));
    scaler.step(adam, {.max_norm = 1.0});
    scaler.update();
    schedule.step();
    ema.update();
    return {loss};
  };
  std::optional<GraphedStep> graph;
  if (where == "graph") graph.emplace(update, GraphedStepOptions{.device = device});

  std::optional<testing::FullDisk> full;
  std::int64_t step = checkpoint.resume().value_or(0);
  while (step < steps) {
    const auto batch = loader.next();
    if (!batch) continue;  // an epoch's end
    const std::vector<Tensor> both{batch->input, batch->target};
    losses.push_back((graph ? (*graph)(both) : update(both))[0].item<double>());
    if (++step == full_at) {
      checkpoint.wait();
      full.emplace(2000);
    }
    if (step % 3 == 0 || step == steps) checkpoint.save(step, {.metric = losses.back()});
  }
  checkpoint.wait();

  NamedTensors all{{"losses", Tensor::from_vector(losses, {steps}, {.dtype = kFloat64})},
                   {"next", Tensor::rand({4}, {.device = device})}};
  const std::pair<std::string, NamedTensors> states[] = {{"model.", net.state_dict()},
                                                         {"adam.", adam.state_dict()},
                                                         {"schedule.", schedule.state_dict()},
                                                         {"ema.", ema.state_dict()},
                                                         {"scaler.", scaler.state_dict()}};
  for (const auto& [prefix, state] : states) {
    for (const auto& [name, tensor] : state) all.emplace_back(prefix + name, tensor);
  }
  nn::save_safetensors(folder / "final.safetensors", all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::cerr << "usage: resume_training FOLDER STEPS WORKERS BACKGROUND cpu|cuda|graph [FULL_AT]\n";
    return 2;
  }
  try {
    train({argv[1], std::atoll(argv[2]), std::atoi(argv[3]), argv[4] == std::string("1"), argv[5],
           argc == 7 ? std::atoll(argv[6]) : -1});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
