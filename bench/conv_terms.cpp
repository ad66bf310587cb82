// Prints the terms of the estimate of every kernel's time (ops/conv/choose/cuda/terms.h) for the layers of
// bench/layers. scripts/calibrate fits them to measured times. The program needs no GPU: the plans are those for an
// H100.
//
//   bench_conv_terms [files [batches]]
//   bench_conv_terms everyday,drawn29,drawn32 1,4,16,64
//
// A line has layer, batch, operator, arithmetic, kernel, the present estimate in microseconds, a star if the library
// chooses the kernel, and the terms.
#include "conv_modes.h"
#include "layers.h"

#include <adjoint/core/base/precision.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

using adjoint::cuda::ConvKernel;
using adjoint::cuda::ConvProblem;
using adjoint::cuda::ConvRole;

void print_terms(const bench::Layer& layer, std::int64_t batch, const bench::ConvMode& mode, ConvRole role) {
  const ConvProblem problem = bench::unplaced_problem(role, layer.with_batch(batch), mode);
  const ConvKernel& chosen = adjoint::cuda::best_conv_kernel(problem);
  for (const ConvKernel* kernel : adjoint::cuda::conv_kernels(role)) {
    adjoint::cuda::Terms terms;
    if (conv_kernel_terms(*kernel, problem, terms).empty()) continue;
    std::printf("%s\t%lld\t%s\t%s\t%s\t%.1f\t%s\t", layer.name.c_str(), static_cast<long long>(batch), role_name(role),
                mode.name, kernel->name, conv_kernel_microseconds(*kernel, problem), kernel == &chosen ? "*" : "");
    for (const double term : terms.all()) std::printf(" %.6g", term);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto words = [&](int at, const char* otherwise) {
    return bench::detail::split(argc > at ? argv[at] : otherwise, ',');
  };
  try {
    const adjoint::cuda::PretendGpu pretend(bench::kHopper);
    for (const std::string& file : words(1, "everyday,drawn29,drawn32")) {
      for (const bench::Layer& layer : bench::read_layers(file)) {
        std::vector<std::int64_t> batches;
        for (const std::string& batch : words(2, "1,4,16,64")) batches.push_back(std::stoll(batch));
        if (layer.batch) batches = {*layer.batch};
        for (const std::int64_t batch : batches) {
          for (const bench::ConvMode& mode : bench::kMeasuredModes) {
            for (const ConvRole role : adjoint::cuda::kConvRoles) print_terms(layer, batch, mode, role);
          }
        }
      }
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_conv_terms: %s\n", e.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
