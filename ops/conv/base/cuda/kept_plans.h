// Keeps plans and choices of kernels: planning takes up to milliseconds, launching microseconds.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/problem.h>
#include <adjoint/ops/conv/base/least_clocks.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace adjoint::cuda {

/// The process keeps the first kMostKept plans of a kernel. Each thread keeps the last kMostRecent later ones, and the
/// last kMostCompared plans that were requested to compare kernels.
inline constexpr std::size_t kMostKept = 4096, kMostRecent = 512, kMostCompared = 8;

/// The numbers on which a plan depends: role, the filter's format, geometry, arithmetic, GPU, machine, and the plans
/// that are skipped.
using PlanKey = std::array<std::int64_t, 29>;

inline PlanKey key_of(const ConvProblem& problem) {
  // Binds all their members, so that adding a member does not compile until it is added here.
  const auto& [rank, batch, image_channels, feature_channels, groups, image, feature, kernel, stride, padding,
               dilation] = problem.geometry;
  const auto& [architecture, has_wgmma, smem_bytes, smem_bytes_a_block] = gpu_of(problem.device);
  const std::array<std::int64_t, 4> machine = numbers_of(problem.machine);
  // A depth shares its number with the height, for which plans of volumes leave room (kMostPlannedExtent).
  const auto height = [](const auto& axes, std::int64_t planar) { return axes.h + (axes.d - planar) * (1LL << 32); };
  return {static_cast<std::int64_t>(problem.role),
          problem.filter_is_channels_last ? 1 : 0,
          static_cast<std::int64_t>(arithmetic_of(problem)),
          rank,
          batch,
          image_channels,
          feature_channels,
          groups,
          height(image, 1),
          image.w,
          height(feature, 1),
          feature.w,
          height(kernel, 1),
          kernel.w,
          height(stride, 1),
          stride.w,
          height(padding, 0),
          padding.w,
          height(dilation, 1),
          dilation.w,
          architecture,
          has_wgmma ? 1 : 0,
          smem_bytes,
          smem_bytes_a_block,
          machine[0],
          machine[1],
          machine[2],
          machine[3],
          std::bit_cast<std::int64_t>(PlansAbove::clocks())};
}

/// The largest extent of a volume for which plans are kept.
inline constexpr std::int64_t kMostPlannedExtent = std::int64_t{1} << 31;

/// A polynomial of the key's numbers, with products that do not wait for each other.
inline std::size_t hash_of(const PlanKey& key) {
  static constexpr auto kPowers = [] {
    std::array<std::uint64_t, std::tuple_size_v<PlanKey>> powers{};
    std::uint64_t power = 1;
    for (std::uint64_t& each : powers) each = power *= 0x9e3779b97f4a7c15U;
    return powers;
  }();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < key.size(); ++i) sum += static_cast<std::uint64_t>(key[i]) * kPowers[i];
  return (sum ^ sum >> 32) * kPowers[0] >> 32;
}

/// The plans of a process, by their keys. Plans are never removed, so they are found without a lock.
template <class Plan>
class PlanTable {
 public:
  struct Entry {
    PlanKey key;
    std::unique_ptr<Plan> plan;
  };

  /// Null if the key is unknown.
  const Entry* find(const PlanKey& key) const {
    for (std::size_t at = hash_of(key);; ++at) {
      const Entry* const entry = places_[at % kPlaces].load(std::memory_order_acquire);
      if (entry == nullptr || entry->key == key) return entry;
    }
  }

  bool is_full() const { return count_.load(std::memory_order_relaxed) >= kMostKept; }

  /// Keeps the plan, and returns the plan now kept under that key, which is another thread's if that was first.
  const Plan* add(const PlanKey& key, std::unique_ptr<Plan> plan) {
    const std::lock_guard lock(mutex_);
    std::size_t at = hash_of(key);
    for (; const Entry* const entry = places_[at % kPlaces].load(std::memory_order_relaxed); ++at) {
      if (entry->key == key) return entry->plan.get();
    }
    auto* const entry = new Entry{key, std::move(plan)};
    places_[at % kPlaces].store(entry, std::memory_order_release);
    count_.fetch_add(1, std::memory_order_relaxed);
    return entry->plan.get();
  }

 private:
  // Threads that find room at the same time may add a few more than kMostKept: twice that never fills.
  static constexpr std::size_t kPlaces = 2 * kMostKept;
  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::array<std::atomic<const Entry*>, kPlaces> places_{};
};

/// The last kCount plans that a thread has made.
template <class Plan, std::size_t kCount>
class RecentPlans {
 public:
  /// Null if there is no plan, or if make() returned false; `is_known` distinguishes the two.
  const Plan* find(const PlanKey& key, bool& is_known) const {
    const auto place = places_.find(key);
    is_known = place != places_.end();
    return is_known && slots_[place->second].takes ? slots_[place->second].plan.get() : nullptr;
  }

  template <class Make>
  const Plan* add(const PlanKey& key, Make& make) {
    const std::size_t at = next_ % kCount;
    if (at == slots_.size()) {
      slots_.push_back({.plan = std::make_unique<Plan>()});
    } else {
      if (slots_[at].is_made) places_.erase(slots_[at].key);
      slots_[at].is_made = false;  // make() may throw
      *slots_[at].plan = {};
    }
    ++next_;  // further plans that make() requests take the next slots
    const bool takes = make(*slots_[at].plan);
    places_[key] = at;
    slots_[at].key = key;
    slots_[at].takes = takes;
    slots_[at].is_made = true;
    return takes ? slots_[at].plan.get() : nullptr;
  }

 private:
  struct Slot {
    bool is_made = false, takes = false;
    PlanKey key{};
    std::unique_ptr<Plan> plan;
  };
  struct Hash {
    std::size_t operator()(const PlanKey& key) const { return hash_of(key); }
  };
  std::vector<Slot> slots_;
  std::unordered_map<PlanKey, std::size_t, Hash> places_;
  std::size_t next_ = 0;
};

/// While it lives, the process does not keep large plans that the thread requests: of the compared kernels one runs,
/// and requests its plan again. Keeping all of them would need memory and, for its pages, most of the time.
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

/// The plan for the problem's role, geometry, arithmetic, GPU and machine, made by make(plan) if there is none yet;
/// null if make() returned false. Valid until the thread has requested kMostRecent others (kMostCompared while kernels
/// are compared), so a kernel may request its parts' plans while it holds its own. Any number of threads may call it
/// concurrently.
template <class Plan, class Make>
const Plan* keep_plan(const ConvProblem& problem, Make&& make) {
  constexpr std::size_t kSmall = 2048;    // bytes
  constinit static PlanTable<Plan> kept;  // never emptied, because a thread may convolve while the process ends
  const PlanKey key = key_of(problem);
  if (const auto* const found = kept.find(key)) return found->plan.get();
  // This follows the look-up, so that a known problem does not touch these thread-local objects.
  thread_local RecentPlans<Plan, kMostCompared> compared;
  thread_local RecentPlans<Plan, kMostRecent> recent;
  bool is_known = false;
  const Plan* known = compared.find(key, is_known);
  if (ComparePlans::compares() && sizeof(Plan) > kSmall) return is_known ? known : compared.add(key, make);
  if (kept.is_full()) {
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
  return kept.add(key, std::move(plan));
}

}  // namespace adjoint::cuda
