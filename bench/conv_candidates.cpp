// Times every kernel that supports a layer, for the given arithmetics and batches, and marks the one that the library
// chooses. scripts/regret judges choices by these times. With "bits" the program hashes the chosen kernels' results.
//
//   bench_conv_candidates [ARITHMETIC,...] [LAYERS,...] [BATCH,...] [KERNEL,...] > bench/results/candidates.tsv
//   bench_conv_candidates ARITHMETIC,... LAYERS,... BATCH,... '' PLANS > bench/results/plans.tsv
//   bench_conv_candidates ARITHMETIC,... LAYERS,... BATCH,... '' bits
//
// The defaults are tf32,bfloat16,float32, the layers of reported,others,everyday, the batches 1,4,16,64 for layers
// without a fixed batch, and all kernels. A line is a kernel: layer, batch, operator, arithmetic, kernel, microseconds,
// a star if the library chooses it, and then, for conv and conv_transpose, microseconds with a frozen filter
// (nn/freeze.h). Times are medians of CUDA events; each call has a cold L2 and a newly written operand.
//
// With PLANS above 1, a line also has up to PLANS plans that the kernel's planner proposes, if the kernel is at most
// kNear times as slow as the fastest. A plan is its modelled clocks and microseconds ("clocks:us"). The planner's
// choice comes first, then the others by their clocks. A plan that seems faster than the planner's choice is timed
// twice.
//
// With "bits" a line is a problem, the chosen kernel, and a hash of its result's bytes. A seed draws the operands, so
// the hash is the same on every GPU of an architecture.

#include "conv_modes.h"
#include "layers.h"

#include <adjoint/core/autograd/kept_forms.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using adjoint::ConvGeometry;
using adjoint::Extents;
using adjoint::Shape;
using adjoint::Storage;
using adjoint::Tensor;
using adjoint::cuda::ConvKernel;
using adjoint::cuda::ConvProblem;
using adjoint::cuda::ConvRole;
using adjoint::cuda::PlansAbove;

constexpr int kRepeats = 7;
constexpr int kFewRepeats = 3;  // for kernels more than kFarBehind times as slow as the fastest
constexpr int kBits = 0;        // in place of a number of plans
constexpr float kFarBehind = 4.0F;
constexpr float kNear = 2.0F;
constexpr double kMostClocks = 3.0;  // a plan's clocks over those of the kernel's fastest plan

class Timer {
 public:
  Timer() : cold_(Tensor::zeros({kColdFloats}, {.device = adjoint::kCUDA})) {
    for (cudaEvent_t& event : events_) cudaEventCreate(&event);
  }

  /// Times one call, which begins with `written` just written and everything else out of the cache.
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

  /// Times several calls after one untimed call; only a few if they are far slower than `least`.
  float median(const std::function<void()>& call, Tensor& written, float least) {
    std::vector<float> times;
    call();
    // A single repeat is not enough, because a shared machine pauses now and then.
    while (times.size() < kFewRepeats ||
           (times.size() < kRepeats && *std::min_element(times.begin(), times.end()) < kFarBehind * least)) {
      times.push_back(microseconds(call, written));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  static constexpr std::int64_t kColdFloats = 24 << 20;  // twice the L2
  static CUstream_st* stream() { return adjoint::Stream::current().handle(); }
  Tensor cold_;
  cudaEvent_t events_[2] = {};
};

Tensor operand(const ConvGeometry& g, Shape shape, const Extents& extent, adjoint::DType dtype) {
  if (g.rank >= 3) shape.push_back(extent.d);
  if (g.rank >= 2) shape.push_back(extent.h);
  shape.push_back(extent.w);
  return Tensor::randn(shape, {.dtype = dtype, .device = adjoint::kCUDA});
}

/// Prints the plans that the kernel's planner proposes, if it searches for a plan; `median` is its choice's time.
void print_plans(Timer& timer, const ConvKernel& kernel, const ConvProblem& problem, float median, Tensor& written,
                 int most) {
  if (rearranges(kernel)) return;  // it has one order, and other kernels plan the rest of the work
  const auto call = [&] { kernel.run(problem); };
  double own = 0.0;
  {
    const PlansAbove anew(PlansAbove::kAnew);
    if (kernel.takes(problem)) own = PlansAbove::found();
  }
  if (own == 0.0) return;
  std::printf("%.6g:%.1f", own, static_cast<double>(median));
  double fewest = 0.0, clocks = 0.0;
  for (int plan = 1; plan < most;) {
    const PlansAbove above(clocks);
    if (!kernel.takes(problem) || PlansAbove::found() == 0.0) return;
    clocks = PlansAbove::found();
    fewest = fewest == 0.0 ? clocks : fewest;
    if (clocks > kMostClocks * fewest) return;
    if (clocks == own) continue;
    float time = timer.median(call, written, median);
    if (time < median) time = std::max(time, timer.median(call, written, median));
    std::printf(" %.6g:%.1f", clocks, static_cast<double>(time));
    ++plan;
  }
}

/// The 64-bit FNV-1a hash of a tensor's bytes.
std::uint64_t hash_of(const Tensor& tensor) {
  const Tensor on_host = tensor.to(adjoint::kCPU);
  const auto* const bytes = static_cast<const unsigned char*>(on_host.raw_data());
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (std::int64_t i = 0; i < on_host.numel() * element_size(on_host.dtype()); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3U;
  }
  return hash;
}

void time_candidates(Timer& timer, const bench::Layer& layer, std::int64_t batch, const bench::ConvMode& mode,
                     const std::vector<std::string>& kernels, int most_plans) {
  const auto wanted = [&](std::string_view name) {
    return kernels.empty() || std::any_of(kernels.begin(), kernels.end(), [&](auto& k) { return name.starts_with(k); });
  };
  // Kernels get a simplified call, as from dispatch.cpp.
  const ConvGeometry g = simplified(layer.with_batch(batch), false);
  adjoint::set_float32_precision(mode.precision);
  adjoint::manual_seed(1);
  Tensor image = operand(g, {g.batch, g.image_channels}, g.image, mode.dtype);
  Tensor feature = operand(g, {g.batch, g.feature_channels}, g.feature, mode.dtype);
  Tensor filter = operand(g, {g.feature_channels, g.image_channels_per_group()}, g.kernel, mode.dtype);
  for (const ConvRole role : adjoint::cuda::kConvRoles) {
    Tensor *first = &image, *second = &filter, *out = &feature;
    if (role == ConvRole::kImage) {
      first = &feature;
      out = &image;
    } else if (role == ConvRole::kFilter) {
      second = &feature;
      out = &filter;
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
    if (most_plans == kBits) {
      chosen.run(problem);
      std::printf("%s\t%lld\t%s\t%s\t%s\t%016llx\n", layer.name.c_str(), static_cast<long long>(batch), role_name(role),
                  mode.name, chosen.name, static_cast<unsigned long long>(hash_of(*out)));
      continue;
    }
    float least = 1e30F;
    std::vector<std::pair<const ConvKernel*, float>> timed;
    for (const ConvKernel* kernel : adjoint::cuda::conv_kernels(role)) {
      if (!wanted(kernel->name) || !kernel->takes(problem)) continue;
      timed.emplace_back(kernel, timer.median([&] { kernel->run(problem); }, *second, least));
      least = std::min(least, timed.back().second);
    }
    for (const auto& [kernel, median] : timed) {
      std::printf("%s\t%lld\t%s\t%s\t%s\t%.1f\t%s", layer.name.c_str(), static_cast<long long>(batch), role_name(role),
                  mode.name, kernel->name, static_cast<double>(median), kernel == &chosen ? "*" : "");
      std::printf("\t");
      if (kernel == &chosen && second == &filter) {
        Storage& storage = *filter.impl()->storage;
        storage.set_forms(std::make_shared<adjoint::detail::KeptForms>());
        ConvProblem frozen = problem;
        frozen.forms = storage.forms();
        std::printf("%.1f", static_cast<double>(timer.median([&] { chosen.run(frozen); }, *first, least)));
        storage.set_forms(nullptr);
      }
      if (most_plans > 1) std::printf("\t");
      if (most_plans > 1 && median < kNear * least) {
        print_plans(timer, *kernel, problem, median, *second, most_plans);
      }
      std::printf("\n");
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
    const std::string last = argc > 5 ? argv[5] : "1";
    const int most_plans = last == "bits" ? kBits : std::stoi(last);
    std::printf("layer\tbatch\toperator\tarithmetic\tkernel\t%s%s\n",
                most_plans == kBits ? "bits" : "microseconds\tchosen\tfrozen", most_plans > 1 ? "\tplans" : "");
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
              time_candidates(timer, layer, batch, mode, words(4, ""), most_plans);
            } catch (const adjoint::Error& error) {  // the other layers still run
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
