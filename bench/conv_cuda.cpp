// Times the convolution trio on a CUDA device over the problems of real networks: conv_transpose forward and both of
// its gradients, in ms (median of repeats, by the host's clock around many calls in a row) and in TFLOP/s.
//
//   bench_conv_cuda [float32|tf32|float16|bfloat16|float64] [NAME] [FAMILY]
//
// NAME selects cases whose name contains it; without it, the cases that the documents report. FAMILY runs only one
// family of kernels, for example `correlation` or `narrow`, on the problems that it supports; GPUs before Hopper run
// `mma`.

#include "layers.h"

#include <adjoint/core/base/error.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
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
using adjoint::Extents;
using adjoint::Shape;
using adjoint::Tensor;
using adjoint::cuda::ConvKernel;
using adjoint::cuda::ConvProblem;
using adjoint::cuda::ConvRole;

/// Returns the layers that the documents report, or of all layers those whose name contains `filter`.
std::vector<bench::Layer> layers(const std::string& filter) {
  std::vector<bench::Layer> all = bench::read_layers("reported");
  if (filter.empty()) return all;
  for (const char* file : {"choices", "others"}) {
    for (const bench::Layer& layer : bench::read_layers(file)) all.push_back(layer);
  }
  std::erase_if(all, [&](const bench::Layer& l) { return l.name.find(filter) == std::string::npos; });
  return all;
}

Tensor random_tensor(const ConvGeometry& g, Shape shape, const Extents& extent, adjoint::DType dtype) {
  if (g.rank >= 3) shape.push_back(extent.d);
  if (g.rank >= 2) shape.push_back(extent.h);
  shape.push_back(extent.w);
  return Tensor::randn(shape, {.dtype = dtype, .device = adjoint::kCUDA});
}

// Returns milliseconds per call: the median of seven runs, each of as many calls as fill 20 ms.
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

/// A kernel for each operator, or null for the kernel that dispatch chooses.
struct Kernels {
  const ConvKernel *conv_transpose, *conv, *conv_weight;
};

/// Returns the kernels of a family, with nullptr for operators without one. If `name` is empty, all are nullptr. Throws
/// Error if no operator has a kernel of the family.
Kernels family_of(const std::string& name) {
  using adjoint::cuda::find_conv_kernel;
  if (name.empty()) return {};
  const auto find = [&](ConvRole role) { return find_conv_kernel(role, name + "_conv"); };
  Kernels kernels{find(ConvRole::kImage), find(ConvRole::kFeature), find(ConvRole::kFilter)};
  if (name == "mma") kernels.conv_weight = find_conv_kernel(ConvRole::kFilter, "tensor_core_conv_weight");
  const bool none = kernels.conv_transpose == nullptr && kernels.conv == nullptr && kernels.conv_weight == nullptr;
  if (none) throw adjoint::Error("bench_conv_cuda: unknown family '" + name + "'");
  return kernels;
}

/// Returns the milliseconds of the call, or of the kernel alone; NaN if the kernel does not support the problem.
double time_on(const ConvKernel* kernel, ConvRole role, const ConvGeometry& g, const Tensor& first,
               const Tensor& second, Tensor out, const std::function<void()>& call) {
  if (kernel == nullptr) return time_ms(call);
  const ConvProblem problem{.role = role,
                            .geometry = g,
                            .dtype = first.dtype(),
                            .precision = adjoint::float32_precision(),
                            .device = 0,
                            .first = first.raw_data(),
                            .second = second.raw_data(),
                            .out = out.raw_mutable_data()};
  if (!kernel->takes(problem)) return std::numeric_limits<double>::quiet_NaN();
  return time_ms([&] { kernel->run(problem); });
}

void time_layer(const bench::Layer& layer, adjoint::DType dtype, const Kernels& kernels) {
  const ConvGeometry& g = layer.geometry;
  const Tensor feature = random_tensor(g, {g.batch, g.feature_channels}, g.feature, dtype);
  const Tensor image = random_tensor(g, {g.batch, g.image_channels}, g.image, dtype);
  const Tensor filter = random_tensor(g, {g.feature_channels, g.image_channels_per_group()}, g.kernel, dtype);
  const double forward = time_on(kernels.conv_transpose, ConvRole::kImage, g, feature, filter, empty_like(image),
                                 [&] { conv_transpose(feature, filter, {}, g); });
  const double input_gradient = time_on(kernels.conv, ConvRole::kFeature, g, image, filter, empty_like(feature),
                                        [&] { conv(image, filter, {}, g); });
  const double weight_gradient = time_on(kernels.conv_weight, ConvRole::kFilter, g, image, feature, empty_like(filter),
                                         [&] { conv_weight(image, feature, g); });
  const double tera_flop =
      2e-12 * static_cast<double>(g.feature_numel()) * static_cast<double>(g.image_channels_per_group() * g.taps());
  const auto rate = [&](double ms) { return tera_flop / (ms * 1e-3); };
  std::printf("%-30s %9.3f %9.3f %9.3f %9.3f   %7.1f %7.1f %7.1f\n", layer.name.c_str(), forward, input_gradient,
              weight_gradient, forward + input_gradient + weight_gradient, rate(forward), rate(input_gradient),
              rate(weight_gradient));
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
  for (const bench::Layer& layer : layers(filter)) {
    try {
      time_layer(layer, dtype, kernels);
    } catch (const std::exception& error) {  // the other cases still run
      std::printf("%-30s %s\n", layer.name.c_str(), error.what());
      status = EXIT_FAILURE;
    }
  }
  return status;
}
