// Times the convolution trio on a CUDA device over the problems of real networks: forward and both gradients of
// conv_transpose, in ms (median of repeats, host clock around many calls in a row) and in TFLOP/s.
//
//   bench_conv_cuda [float32|tf32|float16|bfloat16|float64] [NAME] [FAMILY]
//
// NAME: cases whose name holds it; without one, those that the results are reported for. FAMILY: on these kernels
// alone, for example `correlation` or `narrow`, where they take the problem; `mma` is what GPUs before Hopper run.

#include <adjoint/core/error.h>
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
#include <limits>
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

/// Reported.
std::vector<Case> layers() {
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

/// By which the choice among kernels is calibrated: few results a position, columns up to 64 with several taps, few
/// image channels, and many channels.
std::vector<Case> choices() {
  return {
      {"choice_64_3_k4s2_64x64", geometry_of({128, 64, 3, {4, 4}, {64, 64}, {2, 2}, {1, 1}}, 2)},
      {"choice_64_3_k3_256x256", geometry_of({16, 64, 3, {3, 3}, {256, 256}, {1, 1}, {1, 1}}, 2)},
      {"choice_64_1_k9s4_64x64", geometry_of({16, 64, 1, {9, 9}, {64, 64}, {4, 4}, {4, 4}, {3, 3}}, 2)},
      {"choice_32_1_k7_262144", geometry_of({16, 32, 1, {1, 7}, {1, 262144}, {1, 1}, {0, 3}}, 1)},
      {"choice_16_16_k3_256x256", geometry_of({32, 16, 16, {3, 3}, {256, 256}, {1, 1}, {1, 1}}, 2)},
      {"choice_32_32_k3_256x256", geometry_of({32, 32, 32, {3, 3}, {256, 256}, {1, 1}, {1, 1}}, 2)},
      {"choice_64_64_k3_128x128", geometry_of({32, 64, 64, {3, 3}, {128, 128}, {1, 1}, {1, 1}}, 2)},
      {"choice_64_64_k3_125x125", geometry_of({32, 64, 64, {3, 3}, {125, 125}, {1, 1}, {1, 1}}, 2)},
      {"choice_48_48_k5_128x128", geometry_of({32, 48, 48, {5, 5}, {128, 128}, {1, 1}, {2, 2}}, 2)},
      {"choice_32_16_k4s2_128x128", geometry_of({32, 32, 16, {4, 4}, {128, 128}, {2, 2}, {1, 1}}, 2)},
      {"choice_64_64_k7_16384", geometry_of({32, 64, 64, {1, 7}, {1, 16384}, {1, 1}, {0, 3}}, 1)},
      {"choice_32_32_k11_65536", geometry_of({32, 32, 32, {1, 11}, {1, 65536}, {1, 1}, {0, 5}}, 1)},
      {"few_64_3_k7s2_112x112", geometry_of({64, 64, 3, {7, 7}, {112, 112}, {2, 2}, {3, 3}, {1, 1}}, 2)},
      {"few_96_3_k4s4_56x56", geometry_of({64, 96, 3, {4, 4}, {56, 56}, {4, 4}}, 2)},
      {"few_64_3_k9_256x256", geometry_of({16, 64, 3, {9, 9}, {256, 256}, {1, 1}, {4, 4}}, 2)},
      {"few_64_3_k3_127x127", geometry_of({64, 64, 3, {3, 3}, {127, 127}, {1, 1}, {1, 1}}, 2)},
      {"few_32_4_k3_256x256", geometry_of({16, 32, 4, {3, 3}, {256, 256}, {1, 1}, {1, 1}}, 2)},
      {"few_64_8_k3_256x256", geometry_of({16, 64, 8, {3, 3}, {256, 256}, {1, 1}, {1, 1}}, 2)},
      {"few_128_1_k41s2_32768", geometry_of({16, 128, 1, {1, 41}, {1, 32768}, {1, 2}, {0, 20}, {0, 1}}, 1)},
      {"many_1024_512_k4s2_4x4", geometry_of({128, 1024, 512, {4, 4}, {4, 4}, {2, 2}, {1, 1}}, 2)},
      {"many_256_128_k4s2_16x16", geometry_of({128, 256, 128, {4, 4}, {16, 16}, {2, 2}, {1, 1}}, 2)},
      {"many_512_512_k3_14x14", geometry_of({64, 512, 512, {3, 3}, {14, 14}, {1, 1}, {1, 1}}, 2)},
      {"many_256_256_k3_32x32", geometry_of({64, 256, 256, {3, 3}, {32, 32}, {1, 1}, {1, 1}}, 2)},
      {"many_128_128_k3_56x56", geometry_of({64, 128, 128, {3, 3}, {56, 56}, {1, 1}, {1, 1}}, 2)},
      {"many_64_128_k5_128x128", geometry_of({16, 64, 128, {5, 5}, {128, 128}, {1, 1}, {2, 2}}, 2)},
      {"many_128_128_k7_16384", geometry_of({16, 128, 128, {1, 7}, {1, 16384}, {1, 1}, {0, 3}}, 1)},
      {"many_1024_512_k2s2_16x16", geometry_of({32, 1024, 512, {2, 2}, {16, 16}, {2, 2}}, 2)},
  };
}

/// Those whose name holds `filter`.
std::vector<Case> cases(const std::string& filter) {
  std::vector<Case> all = layers();
  if (filter.empty()) return all;
  for (const Case& c : choices()) all.push_back(c);
  std::erase_if(all, [&](const Case& c) { return std::string(c.name).find(filter) == std::string::npos; });
  return all;
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

/// By operator, or null for the kernels that dispatch chooses.
struct Kernels {
  const char *conv_transpose, *conv, *conv_weight;
};

/// The kernels of a family; null where it has none, and for all of them where `name` is empty. Throws Error for a
/// family that no operator has.
Kernels family_of(const std::string& name) {
  using adjoint::cuda::ConvRole;
  const auto find = [&](ConvRole role) -> const char* {
    for (const adjoint::cuda::ConvKernel* kernel : adjoint::cuda::conv_kernels(role)) {
      if (!name.empty() && std::string(kernel->name).starts_with(name + "_conv")) return kernel->name;
    }
    return nullptr;
  };
  Kernels kernels{find(ConvRole::kImage), find(ConvRole::kFeature), find(ConvRole::kFilter)};
  if (name == "mma") kernels.conv_weight = "tensor_core_conv_weight";
  const bool none = kernels.conv_transpose == nullptr && kernels.conv == nullptr && kernels.conv_weight == nullptr;
  if (!name.empty() && none) throw adjoint::Error("bench_conv_cuda: unknown family '" + name + "'");
  return kernels;
}

/// NaN where the kernel does not take the problem.
double time_on(const char* kernel, const std::function<void()>& call) {
  if (kernel == nullptr) return time_ms(call);
  const adjoint::cuda::ForceConvKernel forced(kernel);
  try {
    return time_ms(call);
  } catch (const adjoint::Error&) {
    return std::numeric_limits<double>::quiet_NaN();
  }
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
  Kernels kernels{};
  try {
    kernels = family_of(argc > 3 ? argv[3] : "");
  } catch (const adjoint::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  std::printf("%-30s %9s %9s %9s %9s   %7s %7s %7s\n", (kind + ": ms | TFLOP/s").c_str(), "forward", "d input",
              "d weight", "all", "forward", "d input", "d weight");
  int status = EXIT_SUCCESS;
  for (const Case& c : cases(filter)) {
    try {
      bench(c, dtype, kernels);
    } catch (const std::exception& error) {  // one case does not cost the others
      std::printf("%-30s %s\n", c.name, error.what());
      status = EXIT_FAILURE;
    }
  }
  return status;
}
