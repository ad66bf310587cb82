// Times every kernel that takes a layer, for the operators, arithmetics and batches asked for, and says which one the
// library chooses: what scripts/regret judges choices by.
//
//   bench_conv_candidates [ARITHMETIC,...] [LAYERS,...] [BATCH,...] [KERNEL,...] > bench/results/candidates.tsv
//
// By default tf32,bfloat16,float32, the layers of reported,others,everyday, the batches 1,4,16,64 for layers that have
// none of their own, and all kernels. A line is a kernel: layer, batch, operator, arithmetic, kernel, microseconds, and
// a star where it is the choice. Times are medians of CUDA events, each call with a cold L2 and an operand written
// anew.

#include "conv_modes.h"
#include "layers.h"

#include <adjoint/core/error.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/random.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tensor.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/trio.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using adjoint::ConvGeometry;
using adjoint::Extent2;
using adjoint::Shape;
using adjoint::Tensor;
using adjoint::cuda::ConvKernel;
using adjoint::cuda::ConvProblem;
using adjoint::cuda::ConvRole;

constexpr int kRepeats = 7;
constexpr int kFewRepeats = 3;  // enough of what is so many times behind the quickest
constexpr float kFarBehind = 4.0F;

class Timer {
 public:
  Timer() : cold_(Tensor::zeros({kColdFloats}, {.device = adjoint::kCUDA})) {
    for (cudaEvent_t& event : events_) cudaEventCreate(&event);
  }

  /// Of one call, which begins with `written` just written and all else out of the cache.
  float microseconds(const std::function<void()>& call, Tensor& written) {
    cold_.fill_(0.0);
    written.fill_(1.0);
    cudaEventRecord(events_[0], stream());
    call();
    cudaEventRecord(events_[1], stream());
    cudaEventSynchronize(events_[1]);
    float ms = 0.0F;
    cudaEventElapsedTime(&ms, events_[0], events_[1]);
    return 1e3F * ms;
  }

 private:
  static constexpr std::int64_t kColdFloats = 24 << 20;  // twice the L2
  static CUstream_st* stream() { return adjoint::Stream::current().handle(); }
  Tensor cold_;
  cudaEvent_t events_[2] = {};
};

Tensor operand(const ConvGeometry& g, Shape shape, const Extent2& extent, adjoint::DType dtype) {
  if (g.rank == 2) shape.push_back(extent[0]);
  shape.push_back(extent[1]);
  return Tensor::randn(shape, {.dtype = dtype, .device = adjoint::kCUDA});
}

void time_candidates(Timer& timer, const bench::Layer& layer, std::int64_t batch, const bench::ConvMode& mode,
                     const std::vector<std::string>& kernels) {
  const auto wanted = [&](std::string_view name) {
    return kernels.empty() || std::any_of(kernels.begin(), kernels.end(), [&](auto& k) { return name.starts_with(k); });
  };
  // Kernels get a call in the form that they do best (dispatch.cpp), and one that is forced the call as it is.
  const ConvGeometry g = simplified(layer.with_batch(batch), false);
  adjoint::set_float32_precision(mode.precision);
  Tensor image = operand(g, {g.batch, g.image_channels}, g.image, mode.dtype);
  Tensor feature = operand(g, {g.batch, g.feature_channels}, g.feature, mode.dtype);
  Tensor filter = operand(g, {g.feature_channels, g.image_channels_per_group()}, g.kernel, mode.dtype);
  for (const ConvRole role : adjoint::cuda::kConvRoles) {
    Tensor *first = &image, *second = &filter, *out = &feature;
    std::function<void()> call = [&] { conv(image, filter, {}, g); };
    if (role == ConvRole::kImage) {
      first = &feature;
      out = &image;
      call = [&] { conv_transpose(feature, filter, {}, g); };
    } else if (role == ConvRole::kFilter) {
      second = &feature;
      out = &filter;
      call = [&] { conv_weight(image, feature, g); };
    }
    const ConvProblem problem{.role = role,
                              .geometry = g,
                              .dtype = mode.dtype,
                              .precision = mode.precision,
                              .device = 0,
                              .first = first->raw_data(),
                              .second = second->raw_data(),
                              .out = out->raw_mutable_data()};
    const ConvKernel& chosen = adjoint::cuda::best_conv_kernel(problem);
    float least = 1e30F;
    for (const ConvKernel* kernel : adjoint::cuda::conv_kernels(role)) {
      if (!wanted(kernel->name) || !kernel->takes(problem)) continue;
      const adjoint::cuda::ForceConvKernel forced(kernel->name);
      std::vector<float> times;
      call();
      // One repeat does not tell: a machine that others use stops for a while now and then.
      while (times.size() < kFewRepeats ||
             (times.size() < kRepeats && *std::min_element(times.begin(), times.end()) < kFarBehind * least)) {
        times.push_back(timer.microseconds(call, *second));
      }
      std::sort(times.begin(), times.end());
      const float median = times[times.size() / 2];
      least = std::min(least, median);
      std::printf("%s\t%lld\t%s\t%s\t%s\t%.1f\t%s\n", layer.name.c_str(), static_cast<long long>(batch),
                  role_name(role), mode.name, kernel->name, static_cast<double>(median), kernel == &chosen ? "*" : "");
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto words = [&](int at, const char* otherwise) {
    return bench::detail::split(argc > at ? argv[at] : otherwise, ',');
  };
  if (!adjoint::cuda_is_available()) {
    std::fprintf(stderr, "bench_conv_candidates: no CUDA device\n");
    return EXIT_FAILURE;
  }
  int status = EXIT_SUCCESS;
  try {
    Timer timer;
    std::printf("layer\tbatch\toperator\tarithmetic\tkernel\tmicroseconds\tchosen\n");
    for (const std::string& file : words(2, "reported,others,everyday")) {
      for (const bench::Layer& layer : bench::read_layers(file)) {
        std::vector<std::int64_t> batches;
        if (layer.batch) {
          batches.push_back(*layer.batch);
        } else {
          for (const std::string& batch : words(3, "1,4,16,64")) batches.push_back(std::stoll(batch));
        }
        for (const std::string& name : words(1, "tf32,bfloat16,float32")) {
          const bench::ConvMode& mode = bench::mode_named(name);
          for (const std::int64_t batch : batches) {
            try {
              time_candidates(timer, layer, batch, mode, words(4, ""));
            } catch (const adjoint::Error& error) {  // one layer does not cost the others
              std::fprintf(stderr, "%s, batch %lld, %s: %s\n", layer.name.c_str(), static_cast<long long>(batch),
                           name.c_str(), error.what());
              status = EXIT_FAILURE;
            }
          }
        }
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return status;
}
