// The kernels that are chosen for the layers of bench/layers, except those drawn at random. A change of a choice
// changes bits and speed, so it must be made on purpose, together with choices.tsv.

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/bench/layers.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_cuda.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

constexpr const char* kHeader =
    "layer\tbatch\tarithmetic\tconv sm_90\tconv_transpose sm_90\tconv_weight sm_90\tconv sm_80\tconv_transpose sm_80\t"
    "conv_weight sm_80\n";

/// A kernel's name without its operator's, which the column shows.
std::string short_name(const std::string& name) { return name.substr(0, name.find("_conv")); }

std::string today() {
  std::string table = kHeader;
  for (const char* file : {"reported", "others", "choices", "everyday"}) {
    for (const bench::Layer& layer : bench::read_layers(file)) {
      const std::vector<std::int64_t> batches =
          layer.batch ? std::vector<std::int64_t>{*layer.batch} : std::vector<std::int64_t>{1, 4, 16, 64};
      for (const std::int64_t batch : batches) {
        for (const ConvMode& mode : kConvModes) {
          if (mode.dtype == kFloat16) continue;  // which has bfloat16's plans
          table += layer.name + '\t' + std::to_string(batch) + '\t' + mode.name;
          for (const cuda::Gpu& gpu : {kHopper, kAmpere}) {
            for (const cuda::ConvRole role : kConvRoles) {
              const cuda::ConvProblem problem = unplaced_problem(role, layer.with_batch(batch), mode);
              table += '\t' + short_name(chosen_kernel(problem, gpu));
            }
          }
          table += '\n';
        }
      }
    }
  }
  return table;
}

TEST(ConvChoices, AreThoseOfTheCommittedTable) {
  std::ifstream file(ADJOINT_CONV_CHOICES);
  std::ostringstream committed;
  committed << file.rdbuf();
  const std::string made = today();
  if (made == committed.str()) return;
  const std::string path = ::testing::TempDir() + "choices.tsv";
  std::ofstream(path) << made;
  std::istringstream now(made), before(committed.str());
  int shown = 0;
  for (std::string is, was; std::getline(now, is);) {
    if (!std::getline(before, was)) was.clear();
    if (is != was && ++shown <= 20) ADD_FAILURE() << "was " << was << "\nis  " << is;
  }
  ADD_FAILURE() << "choices have changed; where that is meant, " << path << " is the new " << ADJOINT_CONV_CHOICES;
}

}  // namespace
}  // namespace adjoint::testing
#endif
