// Plans and choices of kernels, kept: planning takes up to milliseconds, launching microseconds.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/machine.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace adjoint::cuda {

/// Of a kernel's plans the process keeps the first kMostKept; of others each thread keeps the last kMostRecent, and the
/// last kMostCompared of those that were asked for to compare kernels.
inline constexpr std::size_t kMostKept = 4096, kMostRecent = 128, kMostCompared = 8;

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

/// The last plans that a thread has made.
template <class Plan, std::size_t kCount>
class RecentPlans {
 public:
  /// Null where there is none, or where make() returned false; `is_known` tells which.
  const Plan* find(const PlanKey& key, bool& is_known) const {
    for (const Slot& slot : slots_) {
      is_known = slot.is_made && slot.key == key;
      if (is_known) return slot.takes ? slot.plan.get() : nullptr;
    }
    return nullptr;
  }

  template <class Make>
  const Plan* add(const PlanKey& key, Make& make) {
    Slot& slot = slots_[count_++ % kCount];  // others that make() asks for take the next ones
    slot.is_made = false;
    if (slot.plan == nullptr) {
      slot.plan = std::make_unique<Plan>();
    } else {
      *slot.plan = {};
    }
    slot.takes = make(*slot.plan);
    slot.key = key;
    slot.is_made = true;
    return slot.takes ? slot.plan.get() : nullptr;
  }

 private:
  struct Slot {
    bool is_made = false, takes = false;
    PlanKey key;
    std::unique_ptr<Plan> plan;
  };
  std::array<Slot, kCount> slots_;
  std::size_t count_ = 0;
};

/// While it lives, large plans that the thread asks for are not kept by the process: of kernels that are compared one
/// runs, and asks for its plan again. To keep all of them takes memory and, for its pages, most of the time.
class ComparePlans {
 public:
  ComparePlans() : before_(std::exchange(comparing_, true)) {}
  ~ComparePlans() { comparing_ = before_; }
  ComparePlans(const ComparePlans&) = delete;
  ComparePlans& operator=(const ComparePlans&) = delete;

  static bool compares() { return comparing_; }

 private:
  static inline thread_local bool comparing_ = false;
  bool before_;
};

/// The plan for the problem's role, geometry, arithmetic and GPU, made by make(plan) where there is none yet; null
/// where make() returned false. Valid until the thread has asked for kMostRecent others, while kernels are compared
/// kMostCompared: a kernel may ask for those of what it is made of while it holds its own. Any number of threads may
/// ask at once.
template <class Plan, class Make>
const Plan* keep_plan(const ConvProblem& problem, Make&& make) {
  using Plans = std::unordered_map<PlanKey, std::unique_ptr<Plan>, PlanKeyHash>;
  constexpr std::size_t kSmall = 2048;  // bytes
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
  // Behind the look-up: a known problem asks no thread whether it has these yet.
  thread_local RecentPlans<Plan, kMostCompared> compared;
  thread_local RecentPlans<Plan, kMostRecent> recent;
  bool is_known = false;
  const Plan* known = compared.find(key, is_known);
  if (ComparePlans::compares() && sizeof(Plan) > kSmall) return is_known ? known : compared.add(key, make);
  if (is_full) {
    if (!is_known) known = recent.find(key, is_known);
    return is_known ? known : recent.add(key, make);
  }
  std::unique_ptr<Plan> plan;
  if (known != nullptr) {
    plan = std::make_unique<Plan>(*known);
  } else if (!is_known) {
    plan = std::make_unique<Plan>();
    if (!make(*plan)) plan.reset();
  }
  const std::unique_lock lock(mutex);
  return kept.try_emplace(key, std::move(plan)).first->second.get();
}

}  // namespace adjoint::cuda
