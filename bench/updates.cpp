// Times fused optimiser updates beside a copy of the bytes that they must move.
//
//   bench_updates [MILLIONS]      (100: of parameters, in 40 tensors; float32, then bfloat16 with float32 masters)
//
// An update reads and writes each element of a parameter, of the optimiser's state and, in bfloat16, of the master. It
// reads the gradient once, or twice with clipping or GradScaler, which first compute its norm or check that it is
// finite. The driver's copy, on the device, has half as many bytes, because it reads and writes each. Update and copy
// alternate, five calls per timing. The program prints medians by the wall clock.
#include <adjoint/adjoint.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

namespace optim = adjoint::optim;
using adjoint::DType;
using adjoint::Tensor;

constexpr int kTensors = 40, kCalls = 5, kRounds = 15;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class Call>
double milliseconds(const Call& call) {
  adjoint::synchronize(adjoint::kCUDA);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  adjoint::synchronize(adjoint::kCUDA);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / kCalls;
}

// Half of the tensors are large and have 99% of the elements.
std::vector<Tensor> parameters_of(std::int64_t count, DType dtype) {
  std::vector<Tensor> all;
  for (int i = 0; i < kTensors; ++i) {
    const std::int64_t share = count / kTensors * 2;
    Tensor x =
        Tensor::randn({i % 2 == 0 ? share - share / 100 : share / 100}, {.dtype = dtype, .device = adjoint::kCUDA});
    x.requires_grad_();
    x.set_grad(Tensor::randn(x.shape(), {.dtype = dtype, .device = adjoint::kCUDA}));
    all.push_back(x);
  }
  return all;
}

template <class Optimizer, class Options>
void bench(const char* name, std::int64_t states, std::int64_t count, DType dtype, const Options& options) {
  const bool half = dtype != adjoint::kFloat32;
  std::vector<Tensor> parameters = parameters_of(count, dtype);
  std::int64_t elements = 0;
  for (const Tensor& x : parameters) elements += x.numel();
  for (const char* way : {"plain", "max_norm", "GradScaler"}) {
    Optimizer optimizer(parameters, options);
    optim::GradScaler scaler({.init_scale = 1.0, .growth_interval = 1'000'000});
    (void)scaler.scale(Tensor::ones({}, {.device = adjoint::kCUDA}));
    const bool scales = way == std::string("GradScaler"), reads_twice = scales || way == std::string("max_norm");
    const std::int64_t width = half ? 2 : 4;
    const std::int64_t bytes = 2 * width + (half ? 8 : 0) + 8 * states + width * (reads_twice ? 2 : 1);
    const auto half_of_all = static_cast<std::size_t>(elements * bytes / 2);
    const Tensor from = Tensor::ones({static_cast<std::int64_t>(half_of_all / 4)}, {.device = adjoint::kCUDA});
    Tensor to = Tensor::empty(from.shape(), from.options());
    const auto copy = [&] {
      if (cudaMemcpyAsync(to.raw_mutable_data(), from.raw_data(), half_of_all / 4 * 4, cudaMemcpyDeviceToDevice) !=
          cudaSuccess) {
        throw adjoint::Error("bench_updates: the copy failed");
      }
    };
    const auto step = [&] {
      if (scales) {
        (void)scaler.step(optimizer);
        scaler.update();
      } else {
        (void)optimizer.step(reads_twice ? optim::StepOptions{.max_norm = 1.0} : optim::StepOptions{});
      }
    };
    (void)milliseconds(step), (void)milliseconds(copy);
    std::vector<double> steps, copies;
    for (int round = 0; round < kRounds; ++round) {
      copies.push_back(milliseconds(copy));
      steps.push_back(milliseconds(step));
    }
    const double ours = median(steps), floor = median(copies);
    std::printf("| %s | %s | %s | %lld | %.3f | %.3f | %.0f | %.2f |\n", name, to_string(dtype).c_str(), way,
                static_cast<long long>(bytes), ours, floor, static_cast<double>(elements * bytes) / ours * 1e-6,
                floor / ours);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!adjoint::cuda_is_available()) {
    std::fprintf(stderr, "bench_updates: no CUDA device\n");
    return 1;
  }
  const std::int64_t count = (argc > 1 ? std::stoll(argv[1]) : 100) * 1'000'000;
  std::puts(
      "| optimiser | parameters | step | bytes an element | step, ms | copy, ms | GB/s | share of the copy's rate |");
  std::puts("|---|---|---|---:|---:|---:|---:|---:|");
  for (const DType dtype : {adjoint::kFloat32, adjoint::kBFloat16}) {
    bench<optim::SGD>("SGD, momentum", 1, count, dtype, optim::SGDOptions{.lr = 1e-6, .momentum = 0.9});
    bench<optim::Adam>("Adam", 2, count, dtype, optim::AdamOptions{.lr = 1e-6});
    bench<optim::AdamW>("AdamW", 2, count, dtype, optim::AdamWOptions{.lr = 1e-6});
    bench<optim::RMSprop>("RMSprop", 1, count, dtype, optim::RMSpropOptions{.lr = 1e-6});
    bench<optim::Lion>("Lion", 1, count, dtype, optim::LionOptions{.lr = 1e-6});
  }
}
