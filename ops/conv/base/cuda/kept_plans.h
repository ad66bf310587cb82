// Plans and choices of kernels, kept: planning takes up to milliseconds, launching microseconds.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/machine.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace adjoint::cuda {

/// Of a kernel's plans the process keeps the first kMostKept; of others each thread keeps the last kMostRecent.
inline constexpr std::size_t kMostKept = 4096, kMostRecent = 128;

/// What a plan depends on.
struct PlanKey {
  ConvRole role;
  ConvGeometry geometry;
  Arithmetic arithmetic;
  Gpu gpu;
  int multiprocessors;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const {
    std::uint64_t hash = static_cast<std::uint64_t>(key.role) * 64 + static_cast<std::uint64_t>(key.arithmetic);
    const auto mix = [&](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    };
    const ConvGeometry& g = key.geometry;
    for (const std::int64_t value : {std::int64_t{g.rank}, g.batch, g.image_channels, g.feature_channels, g.groups,
                                     std::int64_t{key.multiprocessors}, std::int64_t{key.gpu.architecture}}) {
      mix(value);
    }
    for (const Extent2& extent : {g.image, g.feature, g.kernel, g.stride, g.padding, g.dilation}) {
      mix(extent[0]);
      mix(extent[1]);
    }
    return hash;
  }
};

/// The plan for the problem's role, geometry, arithmetic and GPU, made by make(plan) where there is none yet; null
/// where make() returned false. Valid until the thread has asked for kMostRecent others: a kernel may ask for those of
/// what it is made of while it holds its own. Any number of threads may ask at once.
template <class Plan, class Make>
const Plan* keep_plan(const ConvProblem& problem, Make&& make) {
  using Plans = std::unordered_map<PlanKey, std::unique_ptr<Plan>, PlanKeyHash>;
  static std::shared_mutex mutex;
  static Plans& kept = *new Plans;  // never destroyed: a thread may convolve while the process ends
  const PlanKey key{problem.role, problem.geometry, arithmetic_of(problem), gpu_of(problem.device),
                    planned_multiprocessors()};
  bool is_full = false;
  {
    const std::shared_lock lock(mutex);
    const auto found = kept.find(key);
    if (found != kept.end()) return found->second.get();
    is_full = kept.size() >= kMostKept;
  }
  const auto made = [&] {
    auto plan = std::make_unique<Plan>();
    if (!make(*plan)) plan.reset();
    return plan;
  };
  if (!is_full) {
    std::unique_ptr<Plan> plan = made();
    const std::unique_lock lock(mutex);
    return kept.try_emplace(key, std::move(plan)).first->second.get();
  }
  struct Recent {
    PlanKey key;
    std::unique_ptr<Plan> plan;
  };
  thread_local std::array<Recent, kMostRecent> recent;
  thread_local std::size_t count = 0;
  for (std::size_t i = 0; i < std::min(count, kMostRecent); ++i) {
    if (recent[i].key == key) return recent[i].plan.get();
  }
  std::unique_ptr<Plan> plan = made();  // which may ask for others
  Recent& slot = recent[count++ % kMostRecent];
  slot = {key, std::move(plan)};
  return slot.plan.get();
}

}  // namespace adjoint::cuda
