// Plans of the tensor-core kernels, kept: planning takes longer than launching, and a training loop asks for the same
// few.
#pragma once

#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/correlation/clocks.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint::cuda {

inline constexpr std::size_t kMostKept = 128;  // of a kernel

/// This thread's plan for the problem's role, geometry and arithmetic, made by make(plan) where there is none yet; null
/// where make() returned false. Valid until the thread has asked for kMostKept others: a kernel may ask for those of
/// what it is made of while it holds its own.
template <class Plan, class Make>
const Plan* keep_plan(const ConvProblem& problem, Make&& make) {
  struct Kept {
    ConvRole role;
    ConvGeometry geometry;
    Arithmetic arithmetic;
    int multiprocessors;
    std::unique_ptr<Plan> plan;
    std::uint64_t asked_for = 0;  // when last, counted in calls
  };
  thread_local std::vector<Kept> kept;
  thread_local std::uint64_t calls = 0;
  ++calls;
  const Arithmetic arithmetic = arithmetic_of(problem);
  const int multiprocessors = planned_multiprocessors();
  for (Kept& k : kept) {
    if (k.role == problem.role && k.arithmetic == arithmetic && k.multiprocessors == multiprocessors &&
        k.geometry == problem.geometry) {
      k.asked_for = calls;
      return k.plan.get();
    }
  }
  auto plan = std::make_unique<Plan>();
  if (!make(*plan)) plan.reset();
  Kept entry{problem.role, problem.geometry, arithmetic, multiprocessors, std::move(plan), calls};
  if (kept.size() < kMostKept) return kept.emplace_back(std::move(entry)).plan.get();
  Kept& slot = *std::ranges::min_element(kept, {}, &Kept::asked_for);
  slot = std::move(entry);
  return slot.plan.get();
}

}  // namespace adjoint::cuda
