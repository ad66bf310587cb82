// Regret: the time of the kernel that is chosen today over the quickest kernel's, by the committed table of measured
// times (bench_conv_candidates), for every everyday layer.

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/bench/layers.h>
#include <adjoint/core/error.h>
#include <adjoint/tests/support/conv_choices.h>
#include <adjoint/tests/support/conv_cuda.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace adjoint::testing {
namespace {

// Today's figures, for all problems and, where the quickest kernel takes over kLaunch, for the worst of them. A choice
// may lower them; what raises them is worse than what there is.
constexpr double kMostMean = 1.0393;
constexpr double kMostWorst = 2.82;
constexpr double kLaunch = 10;  // microseconds; what takes less is a launch

using Times = std::map<std::string, double>;  // microseconds, by kernel

struct Problem {
  std::string layer, arithmetic;
  std::int64_t batch = 0;
  cuda::ConvRole role{};

  std::string name() const { return layer + ", " + std::to_string(batch) + ", " + role_name(role) + ", " + arithmetic; }
  friend auto operator<=>(const Problem&, const Problem&) = default;
};

cuda::ConvRole role_of(const std::string& name) {
  for (const cuda::ConvRole role : kConvRoles) {
    if (name == role_name(role)) return role;
  }
  throw Error("candidates.tsv: no such operator: " + name);
}

const ConvMode& mode_of(const std::string& name) {
  for (const ConvMode& mode : kConvModes) {
    if (name == mode.name) return mode;
  }
  throw Error("candidates.tsv: no such arithmetic: " + name);
}

/// A kernel that stands in a list twice is one kernel, which the bench timed twice.
std::string without_else(const std::string& kernel) {
  constexpr std::string_view kElse = "_else";
  return kernel.ends_with(kElse) ? kernel.substr(0, kernel.size() - kElse.size()) : kernel;
}

std::map<Problem, Times> measured_times() {
  std::ifstream file(ADJOINT_CONV_CANDIDATES);
  std::map<Problem, Times> times;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("layer\t")) continue;
    const std::vector<std::string> c = bench::detail::split(line, '\t');
    Times& of_problem = times[{c.at(0), c.at(3), std::stoll(c.at(1)), role_of(c.at(2))}];
    const double time = std::stod(c.at(5));
    const auto [at, is_new] = of_problem.try_emplace(without_else(c.at(4)), time);
    if (!is_new) at->second = std::min(at->second, time);
  }
  return times;
}

double least(const Times& times) {
  const auto quicker = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(times.begin(), times.end(), quicker)->second;
}

TEST(ConvRegret, IsNoMoreThanToday) {
  const std::map<Problem, Times> measured = measured_times();
  std::set<std::pair<std::string, std::int64_t>> kinds;  // arithmetics and batches that were measured
  for (const auto& [problem, times] : measured) kinds.emplace(problem.arithmetic, problem.batch);
  ASSERT_FALSE(kinds.empty());

  std::set<std::string> unmeasured;
  double logarithms = 0, worst = 0;
  int count = 0;
  std::string worst_problem;
  for (const bench::Layer& layer : bench::read_layers("everyday")) {
    for (const auto& [arithmetic, batch] : kinds) {
      for (const cuda::ConvRole role : kConvRoles) {
        const Problem problem{layer.name, arithmetic, batch, role};
        const std::string kernel =
            without_else(chosen_kernel(unplaced_problem(role, layer.with_batch(batch), mode_of(arithmetic)), kHopper));
        const auto found = measured.find(problem);
        const auto time = found == measured.end() ? Times::const_iterator() : found->second.find(kernel);
        if (found == measured.end() || time == found->second.end()) {
          unmeasured.insert(problem.name() + ": " + kernel);
          continue;
        }
        const double quickest = least(found->second), regret = time->second / quickest;
        logarithms += std::log(regret);
        ++count;
        if (quickest > kLaunch && regret > worst) {
          worst = regret;
          worst_problem = problem.name() + ": " + kernel;
        }
      }
    }
  }
  const double mean = std::exp(logarithms / count);
  RecordProperty("mean", std::to_string(mean));
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(mean, kMostMean);
  EXPECT_LE(worst, kMostWorst) << worst_problem;
  EXPECT_EQ(unmeasured, std::set<std::string>()) << "the table lacks what is chosen";
}

}  // namespace
}  // namespace adjoint::testing
#endif
