// Measures how much a Profiler slows down a training while it collects.
//
//   bench_profiler [STEPS] [ROUNDS]      (200 and 7)
//
// The program trains three convolutions with Adam, on the CPU and, if there is one, on a GPU. The smallest size spends
// its time on calls, the largest on kernels. STEPS steps without and with a Profiler alternate: on the GPU with CUDA
// events and, if the component was built, with CUPTI. The program prints a step's medians, by the wall clock on the GPU
// and by the CPU time of one thread on the CPU, because other programs do not add to it. It also prints the ratio
// within a turn (median, least and most) and the number of calls per step.
#include <adjoint/adjoint.h>
#ifdef ADJOINT_BENCH_CUPTI
#include <adjoint/core/profile/cupti/cupti_timer.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <time.h>

namespace {

namespace nn = adjoint::nn;
using adjoint::Device;
using adjoint::Tensor;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Returns milliseconds.
double now(Device device) {
  timespec time;
  clock_gettime(device.is_cuda() ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

void bench(Device device, std::int64_t batch, std::int64_t size, int steps, int rounds, const char* name,
           const std::shared_ptr<adjoint::DeviceTimer>& timer) {
  nn::Sequential net{nn::Conv2d(1, 32, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::Conv2d(32, 32, {.kernel_size = 3, .padding = 1}), nn::ReLU(),
                     nn::ConvTranspose2d(32, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
  net.to(device);
  adjoint::optim::Adam adam(net.parameters(), {.lr = 1e-3});
  const Tensor low = Tensor::rand({batch, 1, size, size}, {.device = device});
  const Tensor high = Tensor::rand({batch, 1, 2 * size, 2 * size}, {.device = device});
  const auto train = [&] {
    adjoint::synchronize(device);
    const double begin = now(device);
    for (int i = 0; i < steps; ++i) {
      adjoint::Tape tape;
      tape.backward(adjoint::mse_loss(net(low), high));
      adam.step();
      adam.zero_grad();
    }
    adjoint::synchronize(device);
    return (now(device) - begin) / steps;
  };
  (void)train();
  std::vector<double> without, with, ratios;
  std::int64_t calls = 0;
  for (int round = 0; round < rounds; ++round) {
    without.push_back(train());
    adjoint::Profiler profiler({.device_timer = timer});
    with.push_back(train());
    ratios.push_back(with.back() / without.back());
    calls = 0;
    for (const adjoint::ProfileRow& row : profiler.rows()) calls += row.calls;
  }
  std::printf("| %s | %lld x %lld x %lld | %lld | %.4f | %.4f | %.3f (%.3f to %.3f) |\n", name,
              static_cast<long long>(batch), static_cast<long long>(size), static_cast<long long>(size),
              static_cast<long long>(calls / steps), median(without), median(with), median(ratios),
              *std::min_element(ratios.begin(), ratios.end()), *std::max_element(ratios.begin(), ratios.end()));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::stoi(argv[1]) : 200, rounds = argc > 2 ? std::stoi(argv[2]) : 7;
  adjoint::set_num_threads(1);
  std::puts("| on | input | calls a step | without, ms | with, ms | ratio |");
  std::puts("|---|---|---:|---:|---:|---:|");
  for (const std::int64_t size : {4, 16, 32}) bench(adjoint::kCPU, 2, size, steps, rounds, "CPU", nullptr);
  if (!adjoint::cuda_is_available()) return 0;
  for (const std::int64_t size : {16, 96, 192}) {
    bench(adjoint::kCUDA, 16, size, steps, rounds, "GPU, events", nullptr);
#ifdef ADJOINT_BENCH_CUPTI
    bench(adjoint::kCUDA, 16, size, steps, rounds, "GPU, CUPTI", adjoint::cupti_timer());
#endif
  }
}
