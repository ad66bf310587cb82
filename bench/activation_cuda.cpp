// Times transposed convolutions with an activation on a CUDA device: one operator against two calls, forward and with
// all gradients, in ms (the least of several runs of many calls each, by the host's clock).
//
//   bench_activation_cuda [float32|tf32|float16|bfloat16]

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/conv/conv.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

using adjoint::Activation;
using adjoint::Shape;
using adjoint::Tensor;

struct Case {
  const char* name;
  Shape input, weight;
  adjoint::ConvTranspose2dParams params;
};

const Case kCases[] = {
    {"dcgan_128_64_32x32", {128, 128, 32, 32}, {128, 64, 4, 4}, {.stride = 2, .padding = 1}},
    {"unet_256_128_64x64", {16, 256, 64, 64}, {256, 128, 2, 2}, {.stride = 2}},
    {"hifigan_128_64_32768", {16, 128, 1, 32768}, {128, 64, 1, 4}, {.stride = {1, 2}, .padding = {0, 1}}},
    {"depthwise_256_64x64", {32, 256, 64, 64}, {256, 1, 4, 4}, {.stride = 2, .padding = 1, .groups = 256}},
};

double time_ms(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 20, kRuns = 7;
  double least = 1e30;
  call();
  for (int run = 0; run < kRuns; ++run) {
    adjoint::synchronize(adjoint::kCUDA);
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    adjoint::synchronize(adjoint::kCUDA);
    least = std::min(least, std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / kCalls);
  }
  return least;
}

struct Operands {
  Tensor input, weight, bias;

  Operands(const Case& c, adjoint::DType dtype) {
    const adjoint::TensorOptions options{.dtype = dtype, .device = adjoint::kCUDA};
    input = Tensor::randn(c.input, options).requires_grad_();
    weight = (Tensor::randn(c.weight, options) * 0.05).requires_grad_();
    bias = Tensor::randn({c.weight[1] * c.params.groups}, options).requires_grad_();
  }
  Tensor fused(const Case& c, const Activation& activation) const {
    adjoint::ConvTranspose2dParams params = c.params;
    params.activation = activation;
    return adjoint::conv_transpose2d(input, weight, bias, params);
  }
  Tensor separate(const Case& c, const Activation& activation) const {
    return adjoint::activate(adjoint::conv_transpose2d(input, weight, bias, c.params), activation);
  }
};

void bench(const Case& c, const char* name, const Activation& activation, adjoint::DType dtype) {
  const Operands in(c, dtype);
  const Tensor seed = Tensor::randn(in.fused(c, activation).shape(), {.dtype = dtype, .device = adjoint::kCUDA});
  const auto forward = [&](bool fused) { return fused ? in.fused(c, activation) : in.separate(c, activation); };
  const auto with_gradients = [&](bool fused) {
    adjoint::Tape tape;
    tape.gradient(forward(fused), {in.input, in.weight, in.bias}, {.grad_output = seed});
  };
  double times[4];
  for (const bool fused : {false, true}) {
    times[fused ? 1 : 0] = time_ms([&] { forward(fused); });
    times[fused ? 3 : 2] = time_ms([&] { with_gradients(fused); });
  }
  std::printf("%-22s %-8s %9.3f %9.3f %7.2f   %9.3f %9.3f %7.2f\n", c.name, name, times[0], times[1],
              times[0] / times[1], times[2], times[3], times[2] / times[3]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "tf32";
  if (!adjoint::cuda_is_available()) {
    std::fprintf(stderr, "bench_activation_cuda: no CUDA device\n");
    return EXIT_FAILURE;
  }
  adjoint::DType dtype = adjoint::kFloat32;
  if (kind == "tf32") {
    adjoint::set_float32_precision(adjoint::Precision::kTF32);
  } else if (kind == "float16") {
    dtype = adjoint::kFloat16;
  } else if (kind == "bfloat16") {
    dtype = adjoint::kBFloat16;
  } else if (kind != "float32") {
    std::fprintf(stderr, "bench_activation_cuda: unknown kind '%s'\n", kind.c_str());
    return EXIT_FAILURE;
  }
  std::printf("%-31s %9s %9s %7s   %9s %9s %7s\n", (kind + ": ms").c_str(), "forward", "fused", "ratio", "with grad",
              "fused", "ratio");
  for (const Case& c : kCases) {
    bench(c, "relu", Activation::relu(), dtype);
    bench(c, "tanh", Activation::tanh(), dtype);
    bench(c, "silu", Activation::silu(), dtype);
  }
}
