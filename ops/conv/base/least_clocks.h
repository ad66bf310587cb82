// Keeps the plan with the fewest modelled clocks among all that a planner's search proposes; for tables of measured
// times (bench_conv_candidates) also returns the others, one by one.
#pragma once

#include <adjoint/core/base/export.h>

#include <limits>

namespace adjoint::cuda {

/// While it lives, this thread's searches skip plans that they model at `clocks` or less: given the clocks of a plan,
/// they find the next. For benchmarks and tests.
class ADJOINT_API PlansAbove {
 public:
  /// kNone: searches skip nothing, as without a PlansAbove; kAnew: the same, but known plans are planned again.
  static constexpr double kNone = -1.0, kAnew = -2.0;

  explicit PlansAbove(double clocks);
  ~PlansAbove();
  PlansAbove(const PlansAbove&) = delete;
  PlansAbove& operator=(const PlansAbove&) = delete;

  /// This thread's clocks; kNone without a PlansAbove.
  static double clocks();
  /// The clocks of the plan found by this thread's last search; 0 if there was none since the last PlansAbove began.
  static double found();

 private:
  double before_;
};

class LeastClocks {
 public:
  LeastClocks() : above_(PlansAbove::clocks()) {}
  ~LeastClocks();
  LeastClocks(const LeastClocks&) = delete;
  LeastClocks& operator=(const LeastClocks&) = delete;

  /// If `clocks` beats the best so far, records it and returns true. share: it must be below that share of the best, so
  /// that the first of nearly equal plans is kept; while others are skipped (PlansAbove) the share does not apply.
  bool take(double clocks, double share = 1.0) {
    if (above_ >= 0 ? clocks <= above_ || clocks >= best_ : clocks >= share * best_) return false;
    best_ = clocks;
    return true;
  }
  double best() const { return best_; }
  bool found() const { return best_ < std::numeric_limits<double>::infinity(); }

 private:
  double above_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace adjoint::cuda
