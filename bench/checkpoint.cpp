// Measures how much a checkpoint that a thread writes slows down the training loop beside it.
//
//   bench_checkpoint [MEGABYTES] [SECONDS] [ROUNDS]      (1000, 20 and 5)
//
// The program trains a small network on the GPU, or on the CPU if there is no GPU, with MEGABYTES of state beside it,
// in tensors of 4 MB. Two loops alternate, with as many steps as fill SECONDS. One runs alone; the other saves a
// checkpoint in the background first, and waits for it last. The program prints their medians by the wall clock and the
// ratio, which is the cost of one checkpoint in SECONDS. It also prints how long save() blocks the loop, and how long a
// checkpoint takes that blocks the loop until it is written.
#include "scratch.h"

#include <adjoint/adjoint.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kPiece = 1'000'000;  // elements

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct State {
  adjoint::NamedTensors state_dict() const { return tensors; }
  void load_state_dict(const adjoint::NamedTensors&) {}

  adjoint::NamedTensors tensors;
};

void bench_checkpoint(std::int64_t megabytes, double seconds, int rounds, const fs::path& folder) {
  const adjoint::Device device = adjoint::default_device();
  State state;
  for (std::int64_t i = 0; i * 4 < megabytes; ++i)
    state.tensors.emplace_back(std::to_string(i), Tensor::rand({kPiece}, {.device = device}));

  nn::Sequential net{nn::Conv2d(1, 32, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::Conv2d(32, 32, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(32, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(device);
  adjoint::optim::Adam adam(net.parameters(), {.lr = 1e-3});
  const Tensor low = Tensor::rand({16, 1, 48, 48}, {.device = device});
  const Tensor high = Tensor::rand({16, 1, 96, 96}, {.device = device});
  const auto train = [&](std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      adjoint::Tape tape;
      tape.backward(adjoint::mse_loss(net(low), high));
      adam.step();
      adam.zero_grad();
      if (i % 50 == 49) adjoint::synchronize(device);  // like a loop that shows its loss
    }
    adjoint::synchronize(device);
  };

  nn::Checkpoint beside(folder / "beside", {.keep_last = 1, .background = true});
  nn::Checkpoint awaited(folder / "awaited", {.keep_last = 1});
  for (nn::Checkpoint* checkpoint : {&beside, &awaited}) {
    checkpoint->add("state", state);
    checkpoint->add("net", net);
    checkpoint->add("adam", adam);
  }
  std::int64_t step = 0;
  const double first = seconds_of([&] { beside.save(++step); });
  beside.wait();

  train(50);
  std::int64_t steps = 50;
  double taken = seconds_of([&] { train(steps); });
  while (taken < 0.1 * seconds) taken = seconds_of([&] { train(steps *= 2); });
  steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(steps) * seconds / taken));

  std::vector<double> alone, together, ratios, saves, waits;
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(seconds_of([&] { train(steps); }));
    together.push_back(seconds_of([&] {
      saves.push_back(seconds_of([&] { beside.save(++step); }));
      train(steps);
      waits.push_back(seconds_of([&] { beside.wait(); }));
    }));
    ratios.push_back(together.back() / alone.back());
  }
  const double synchronous = seconds_of([&] { awaited.save(1); });
  std::printf("%lld MB of state on the %s, checkpoints on the disk of '%s'; %lld steps\n",
              static_cast<long long>(megabytes), device.is_cuda() ? "GPU" : "CPU", folder.parent_path().c_str(),
              static_cast<long long>(steps));
  std::printf("loop alone %.3f s, with one checkpoint %.3f s, ratio %.4f (%.4f to %.4f)\n", median(alone),
              median(together), median(ratios), *std::min_element(ratios.begin(), ratios.end()),
              *std::max_element(ratios.begin(), ratios.end()));
  std::printf("save() blocks the loop for %.1f ms, the first time for %.1f ms; the wait at the end takes %.1f ms\n",
              1e3 * median(saves), 1e3 * first, 1e3 * median(waits));
  std::printf("a checkpoint in the foreground takes %.3f s\n", synchronous);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::in_scratch_folder("bench_checkpoint", [&](const fs::path& folder) {
    bench_checkpoint(argc > 1 ? std::stoll(argv[1]) : 1000, argc > 2 ? std::stod(argv[2]) : 20.0,
                     argc > 3 ? std::stoi(argv[3]) : 5, folder);
  });
}
