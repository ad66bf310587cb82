// Measures the time in which the library chooses a kernel, for new problems and for known ones: CPU time of one thread.
// The choices are those for an H100 or H200, but no GPU is needed. The problems are the layers of bench/layers, in
// three operators and arithmetics, at batches 1, 4, 16 and 64 if a layer has no fixed batch.
//
//   bench_conv_lookups [N] [NAME]
//
// The program prints mean, 99th percentile and maximum in microseconds, and the N slowest look-ups (10). NAME selects
// layers whose name contains it.

#include "conv_modes.h"
#include "layers.h"

#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using adjoint::cuda::ConvProblem;
using adjoint::cuda::ConvRole;

struct LookUp {
  std::string what;
  ConvProblem problem;
  double first_us = 0, again_us = 0;
};

double now_us() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

std::vector<LookUp> look_ups(const std::string& name) {
  std::vector<LookUp> all;
  for (const char* file : {"reported", "others", "choices", "everyday", "drawn29", "drawn32", "wide"}) {
    for (const bench::Layer& layer : bench::read_layers(file)) {
      if (layer.name.find(name) == std::string::npos) continue;
      const std::vector<std::int64_t> batches =
          layer.batch ? std::vector<std::int64_t>{*layer.batch} : std::vector<std::int64_t>{1, 4, 16, 64};
      for (const std::int64_t batch : batches) {
        for (const bench::ConvMode& mode : bench::kMeasuredModes) {
          for (const ConvRole role : adjoint::cuda::kConvRoles) {
            all.push_back(
                {.what = layer.name + ", batch " + std::to_string(batch) + ", " + mode.name + ", " + role_name(role),
                 .problem = bench::unplaced_problem(role, layer.with_batch(batch), mode)});
          }
        }
      }
    }
  }
  return all;
}

void print(const char* name, std::vector<LookUp>& all, double LookUp::*us) {
  std::sort(all.begin(), all.end(), [us](const LookUp& a, const LookUp& b) { return a.*us > b.*us; });
  double sum = 0;
  for (const LookUp& look_up : all) sum += look_up.*us;
  std::printf("%-6s of %zu look-ups: mean %.2f us, 99th percentile %.2f us, most %.2f us\n", name, all.size(),
              sum / static_cast<double>(all.size()), all[all.size() / 100].*us, all.front().*us);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::size_t shown = argc > 1 ? std::stoul(argv[1]) : 10;
    const adjoint::cuda::PretendGpu gpu(bench::kHopper);
    std::vector<LookUp> all = look_ups(argc > 2 ? argv[2] : "");
    if (all.empty()) throw adjoint::Error("bench_conv_lookups: no layer has such a name");
    constexpr int kAgain = 100;
    for (LookUp& look_up : all) {
      const double begin = now_us();
      adjoint::cuda::best_conv_kernel(look_up.problem);
      const double first = now_us();
      for (int i = 0; i < kAgain; ++i) adjoint::cuda::best_conv_kernel(look_up.problem);
      look_up.first_us = first - begin;
      look_up.again_us = (now_us() - first) / kAgain;
    }
    print("known", all, &LookUp::again_us);
    print("first", all, &LookUp::first_us);
    for (std::size_t i = 0; i < std::min(shown, all.size()); ++i) {
      std::printf("%8.0f us  %s: %s\n", all[i].first_us, all[i].what.c_str(),
                  adjoint::cuda::best_conv_kernel(all[i].problem).name);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
