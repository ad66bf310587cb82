// Times the convolution trio on a CUDA device over the problems of real networks: forward and both gradients of
// conv_transpose, in ms (median of repeats, host clock around many calls in a row) and in TFLOP/s.
//
//   bench_conv_cuda [float32|tf32|float16|bfloat16|float64] [NAME] [ampere]
//
// NAME: cases whose name holds it. ampere: on the tensor-core kernels that GPUs before Hopper run.

#include <adjoint/core/precision.h>
#include <adjoint/core/random.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/cuda/dispatch.h>
#include <adjoint/ops/conv/trio.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace {

using adjoint::ConvGeometry;
using adjoint::Extent2;
using adjoint::Shape;
using adjoint::Tensor;

struct Case {
  const char* name;
  ConvGeometry geometry;
};

struct Transposed {
  std::int64_t batch, in_channels, out_channels;
  Extent2 kernel, input;
  Extent2 stride{1, 1}, padding{0, 0}, output_padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
};

ConvGeometry geometry_of(const Transposed& t, int rank) {
  ConvGeometry g{.rank = rank,
                 .batch = t.batch,
                 .image_channels = t.out_channels,
                 .feature_channels = t.in_channels,
                 .groups = t.groups,
                 .feature = t.input,
                 .kernel = t.kernel,
                 .stride = t.stride,
                 .padding = t.padding,
                 .dilation = t.dilation};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    g.image[axis] = (t.input[axis] - 1) * t.stride[axis] - 2 * t.padding[axis] +
                    t.dilation[axis] * (t.kernel[axis] - 1) + t.output_padding[axis] + 1;
  }
  return g;
}

std::vector<Case> cases() {
  return {
      {"1d_128_k3_65536", geometry_of({64, 128, 128, {1, 3}, {1, 65536}}, 1)},
      {"1d_32_64_k5_dilation3_131072",
       geometry_of({32, 32, 64, {1, 5}, {1, 131072}, {1, 1}, {0, 0}, {0, 0}, {1, 3}}, 1)},
      {"2d_32_k3x7_512x1024", geometry_of({8, 32, 32, {3, 7}, {512, 1024}, {1, 1}, {1, 3}}, 2)},
      {"dcgan_512_256_8x8", geometry_of({128, 512, 256, {4, 4}, {8, 8}, {2, 2}, {1, 1}}, 2)},
      {"dcgan_128_64_32x32", geometry_of({128, 128, 64, {4, 4}, {32, 32}, {2, 2}, {1, 1}}, 2)},
      {"unet_256_128_64x64", geometry_of({16, 256, 128, {2, 2}, {64, 64}, {2, 2}}, 2)},
      {"fsrcnn_56_1_256x256", geometry_of({16, 56, 1, {9, 9}, {256, 256}, {3, 3}, {4, 4}, {2, 2}}, 2)},
      {"hifigan_512_256_512", geometry_of({16, 512, 256, {1, 16}, {1, 512}, {1, 8}, {0, 4}}, 1)},
      {"hifigan_128_64_32768", geometry_of({16, 128, 64, {1, 4}, {1, 32768}, {1, 2}, {0, 1}}, 1)},
      {"depthwise_256_64x64", geometry_of({32, 256, 256, {4, 4}, {64, 64}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 256}, 2)},
  };
}

Tensor random_tensor(const ConvGeometry& g, Shape shape, const Extent2& extent, adjoint::DType dtype) {
  if (g.rank == 2) shape.push_back(extent[0]);
  shape.push_back(extent[1]);
  return Tensor::randn(shape, {.dtype = dtype, .device = adjoint::kCUDA});
}

// Milliseconds a call: the median of seven runs, each of as many calls as fill 20 ms.
double time_ms(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int calls) {
    adjoint::synchronize(adjoint::kCUDA);
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    adjoint::synchronize(adjoint::kCUDA);
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls;
  };
  run(2);
  const int calls = std::clamp(static_cast<int>(20.0 / run(3)), 1, 1000);
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(run(calls));
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

/// The kernels that GPUs before Hopper run, by operator; none of them for the kernels that dispatch chooses.
struct Kernels {
  const char *conv_transpose, *conv, *conv_weight;
};
constexpr Kernels kAmpereKernels{"mma_conv_transpose", "mma_conv", "tensor_core_conv_weight"};

double time_on(const char* kernel, const std::function<void()>& call) {
  if (kernel == nullptr) return time_ms(call);
  const adjoint::cuda::ForceConvKernel forced(kernel);
  return time_ms(call);
}

void bench(const Case& c, adjoint::DType dtype, const Kernels& kernels) {
  const ConvGeometry& g = c.geometry;
  const Tensor feature = random_tensor(g, {g.batch, g.feature_channels}, g.feature, dtype);
  const Tensor image = random_tensor(g, {g.batch, g.image_channels}, g.image, dtype);
  const Tensor filter = random_tensor(g, {g.feature_channels, g.image_channels_per_group()}, g.kernel, dtype);
  const double forward = time_on(kernels.conv_transpose, [&] { conv_transpose(feature, filter, {}, g); });
  const double input_gradient = time_on(kernels.conv, [&] { conv(image, filter, {}, g); });
  const double weight_gradient = time_on(kernels.conv_weight, [&] { conv_weight(image, feature, g); });
  const double tera_flop =
      2e-12 * static_cast<double>(g.feature_numel()) * static_cast<double>(g.image_channels_per_group() * g.taps());
  const auto rate = [&](double ms) { return tera_flop / (ms * 1e-3); };
  std::printf("%-30s %9.3f %9.3f %9.3f %9.3f   %7.1f %7.1f %7.1f\n", c.name, forward, input_gradient, weight_gradient,
              forward + input_gradient + weight_gradient, rate(forward), rate(input_gradient), rate(weight_gradient));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "float32";
  const std::string filter = argc > 2 ? argv[2] : "";
  const bool ampere = argc > 3 && std::string(argv[3]) == "ampere";
  if (!adjoint::cuda_is_available()) {
    std::fprintf(stderr, "bench_conv_cuda: no CUDA device\n");
    return EXIT_FAILURE;
  }
  adjoint::DType dtype = adjoint::kFloat32;
  if (kind == "tf32") {
    adjoint::set_float32_precision(adjoint::Precision::kTF32);
  } else if (kind == "float16") {
    dtype = adjoint::kFloat16;
  } else if (kind == "bfloat16") {
    dtype = adjoint::kBFloat16;
  } else if (kind == "float64") {
    dtype = adjoint::kFloat64;
  } else if (kind != "float32") {
    std::fprintf(stderr, "bench_conv_cuda: unknown kind '%s'\n", kind.c_str());
    return EXIT_FAILURE;
  }
  std::printf("%-30s %9s %9s %9s %9s   %7s %7s %7s\n", (kind + ": ms | TFLOP/s").c_str(), "forward", "d input",
              "d weight", "all", "forward", "d input", "d weight");
  int status = EXIT_SUCCESS;
  for (const Case& c : cases()) {
    if (std::string(c.name).find(filter) == std::string::npos) continue;
    try {
      bench(c, dtype, ampere ? kAmpereKernels : Kernels{});
    } catch (const std::exception& error) {  // one case does not cost the others
      std::printf("%-30s %s\n", c.name, error.what());
      status = EXIT_FAILURE;
    }
  }
  return status;
}
