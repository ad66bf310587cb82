// Measures the host's time for a call of conv_transpose on a CUDA device, for a problem that an earlier call has
// planned. The time runs from the call of the function in conv.h to its return, and includes the result's release. No
// call waits for the device, which may still work.
//
//   bench_conv_host [ARITHMETIC,...] [LAYERS,...]
//
// The defaults are tf32,bfloat16,float32 and the transposed layers of reported and everyday, at batch 1. A line is a
// layer: name, arithmetic, kernel, and microseconds per call, on the default stream and on another one, whose
// workspaces come from the pool each time (core/cuda/spare_workspaces.h). Times are medians of rounds of calls; the
// streams alternate. The lines before the layers time single parts of a call.

#include "conv_modes.h"
#include "layers.h"

#include <adjoint/adjoint.h>
#include <adjoint/core/cuda/tensor_map.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/trio.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using adjoint::ConvGeometry;
using adjoint::Shape;
using adjoint::Tensor;

constexpr int kRounds = 25, kCalls = 60;  // a round's launches fit in a stream's queue

/// Returns the microseconds per call of one round.
template <class Call>
double round_of(const Call& call) {
  using Clock = std::chrono::steady_clock;
  adjoint::Stream::current().synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kCalls;
  adjoint::Stream::current().synchronize();
  return us;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

struct Times {
  double default_stream, other_stream;
};

template <class Call>
Times time(const adjoint::Stream& other, const Call& call) {
  std::vector<double> on_default, on_other;
  for (int i = -2; i < kRounds; ++i) {  // the first rounds plan, load code and fill the pool
    const double first = round_of(call);
    const adjoint::StreamGuard guard(other);
    const double second = round_of(call);
    if (i < 0) continue;
    on_default.push_back(first);
    on_other.push_back(second);
  }
  return {median(std::move(on_default)), median(std::move(on_other))};
}

void print(const std::string& name, const char* arithmetic, const char* kernel, const Times& times) {
  std::printf("%s\t%s\t%s\t%.2f\t%.2f\n", name.c_str(), arithmetic, kernel, times.default_stream, times.other_stream);
  std::fflush(stdout);
}

void time_parts(const adjoint::Stream& other) {
  Tensor small = Tensor::zeros({1024}, {.device = adjoint::kCUDA});
  print("a tensor of 4 KiB, made and released", "-", "-",
        time(other, [&] { Tensor::empty({1024}, {.device = adjoint::kCUDA}); }));
  print("fill_, one launch", "-", "-", time(other, [&] { small.fill_(1.0); }));
  const adjoint::cuda::TensorMapLayout layout{.data = small.raw_data(),
                                              .dtype = adjoint::kFloat32,
                                              .extents = {32, 8, 4, 1, 1},
                                              .strides = {1, 32, 256, 1024, 1024},
                                              .box = {32, 8, 1, 1, 1}};
  try {
    print("a tensor map", "-", "-", time(other, [&] { adjoint::cuda::encode_tensor_map(layout); }));
  } catch (const adjoint::Error&) {  // GPUs before Hopper have no tensor maps
  }
}

/// Calls the function as programs do.
Tensor call(const Tensor& feature, const Tensor& filter, const ConvGeometry& g) {
  if (g.rank == 1) {
    return conv_transpose1d(feature, filter, {},
                            {.stride = g.stride.w,
                             .padding = g.padding.w,
                             .dilation = g.dilation.w,
                             .groups = g.groups,
                             .output_size = g.image.w});
  }
  return conv_transpose2d(feature, filter, {},
                          {.stride = {g.stride.h, g.stride.w},
                           .padding = {g.padding.h, g.padding.w},
                           .dilation = {g.dilation.h, g.dilation.w},
                           .groups = g.groups,
                           .output_size = {g.image.h, g.image.w}});
}

Times time_layer(const adjoint::Stream& other, const bench::Layer& layer, const bench::ConvMode& mode) {
  const ConvGeometry g = layer.with_batch(1);
  adjoint::set_float32_precision(mode.precision);
  const adjoint::TensorOptions options{.dtype = mode.dtype, .device = adjoint::kCUDA};
  const Tensor feature = Tensor::randn(feature_shape(g), options), filter = Tensor::randn(filter_shape(g), options);
  const Times times = time(other, [&] { call(feature, filter, g); });
  const Tensor image = call(feature, filter, g);
  const adjoint::cuda::ConvProblem problem{.role = adjoint::cuda::ConvRole::kImage,
                                           .geometry = simplified(g, false),
                                           .dtype = mode.dtype,
                                           .precision = mode.precision,
                                           .device = 0,
                                           .first = feature.raw_data(),
                                           .second = filter.raw_data(),
                                           .out = const_cast<void*>(image.raw_data())};
  print(layer.name, mode.name, adjoint::cuda::best_conv_kernel(problem).name, times);
  if (layer.name == "DCGAN 32x32") {
    const Times choice = time(other, [&] { adjoint::cuda::best_conv_kernel(problem); });
    print("  of which the choice of the kernel", mode.name, "-", choice);
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const auto words = [&](int at, const char* otherwise) {
    return bench::detail::split(argc > at ? argv[at] : otherwise, ',');
  };
  if (!adjoint::cuda_is_available()) {
    std::fprintf(stderr, "bench_conv_host: no CUDA device\n");
    return EXIT_FAILURE;
  }
  try {
    const adjoint::Stream other = adjoint::Stream::create();
    std::printf("layer\tarithmetic\tkernel\tdefault stream us\tother stream us\n");
    time_parts(other);
    double logs[2] = {};
    int count = 0;
    for (const std::string& name : words(1, "tf32,bfloat16,float32")) {
      const bench::ConvMode& mode = bench::mode_named(name);
      for (const std::string& file : words(2, "reported,everyday")) {
        for (const bench::Layer& layer : bench::read_layers(file)) {
          if (!layer.transposed) continue;
          const Times times = time_layer(other, layer, mode);
          logs[0] += std::log(times.default_stream);
          logs[1] += std::log(times.other_stream);
          ++count;
        }
      }
    }
    if (count > 0) print("geometric mean of layers", "-", "-", {std::exp(logs[0] / count), std::exp(logs[1] / count)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
