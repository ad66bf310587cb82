// What a planner's search keeps: of all plans that it proposes the one of the fewest modelled clocks; and for tables of
// measured times (bench_conv_candidates), the others too, one after the other.
#pragma once

#include <adjoint/core/export.h>

#include <limits>

namespace adjoint::cuda {

/// While it lives, this thread's searches pass over plans that they model at `clocks` or less: told the clocks of a
/// plan, they find the next. For benchmarks and tests.
class ADJOINT_API PlansAbove {
 public:
  /// They pass over none, as where no PlansAbove lives; and likewise, but plan anew what is planned already.
  static constexpr double kNone = -1.0, kAnew = -2.0;

  explicit PlansAbove(double clocks);
  ~PlansAbove();
  PlansAbove(const PlansAbove&) = delete;
  PlansAbove& operator=(const PlansAbove&) = delete;

  /// This thread's; kNone where none lives.
  static double clocks();
  /// Of the plan that this thread's last search found; 0 where none did since the last PlansAbove began.
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

  /// Whether a plan of so many clocks is the best so far, which it is then. share: it has to be below that of the best,
  /// so that of nearly equals the first is kept; of others (PlansAbove) none is left out so.
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
