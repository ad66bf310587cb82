#include <adjoint/optim/strong_wolfe.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace adjoint::optim {
namespace {

// Nocedal and Wright's c1 and c2 for quasi-Newton methods.
constexpr double kDecrease = 1e-4, kCurvature = 0.9;
constexpr int kMostTrials = 25;

// The minimum, in [low, high], of the cubic through both ends' losses and slopes; the middle if it has no minimum.
double cubic_minimum(const LineTrial& one, const LineTrial& other, double low, double high) {
  const LineTrial &a = one.length <= other.length ? one : other, &b = one.length <= other.length ? other : one;
  const double d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.length - b.length);
  const double square = d1 * d1 - a.slope * b.slope;
  const double root = std::sqrt(std::max(square, 0.0));
  const double place = b.length - (b.length - a.length) * ((b.slope + root - d1) / (b.slope - a.slope + 2.0 * root));
  return square >= 0.0 && !std::isnan(place) ? std::clamp(place, low, high) : (low + high) / 2.0;
}

class Search {
 public:
  Search(const std::function<LineTrial(double)>& evaluate, const LineTrial& start)
      : evaluate_(evaluate), start_(start) {}

  LineTrial run(double length, double unit, double tolerance) {
    LineTrial now = evaluate_(length);
    if (!bracket(now)) return now;
    return zoom(unit, tolerance);
  }

 private:
  bool too_high(const LineTrial& trial) const {
    return trial.loss > start_.loss + kDecrease * trial.length * start_.slope;
  }
  bool flat(const LineTrial& trial) const { return std::abs(trial.slope) <= -kCurvature * start_.slope; }
  std::size_t lower_end() const { return ends_[0].loss <= ends_[1].loss ? 0 : 1; }

  // Takes ever larger steps until two lengths have a good length between them. Returns false if `now` is good.
  bool bracket(LineTrial& now) {
    LineTrial before = start_;
    for (; trials_ < kMostTrials; ++trials_) {
      if (too_high(now) || (trials_ > 1 && now.loss >= before.loss)) {
        ends_ = {before, now};
        return true;
      }
      if (flat(now)) return false;
      if (now.slope >= 0.0) {
        ends_ = {before, now};
        return true;
      }
      const double least = now.length + 0.01 * (now.length - before.length), most = 10.0 * now.length;
      const double next = cubic_minimum(before, now, least, most);
      before = std::exchange(now, evaluate_(next));
    }
    ends_ = {start_, now};
    return true;
  }

  LineTrial zoom(double unit, double tolerance) {
    std::size_t low = lower_end();
    bool stuck = false;  // at the interval's end in the trial before
    while (trials_ < kMostTrials) {
      const double least = std::min(ends_[0].length, ends_[1].length);
      const double most = std::max(ends_[0].length, ends_[1].length);
      if ((most - least) * unit < tolerance) break;
      double length = cubic_minimum(ends_[0], ends_[1], least, most);
      const double margin = 0.1 * (most - least);
      const bool at_end = std::min(most - length, length - least) < margin;
      if (at_end && (stuck || length >= most || length <= least)) {
        length = std::abs(length - most) < std::abs(length - least) ? most - margin : least + margin;
        stuck = false;
      } else {
        stuck = at_end;
      }
      const LineTrial now = evaluate_(length);
      ++trials_;
      LineTrial &lower = ends_[low], &higher = ends_[1 - low];
      if (too_high(now) || now.loss >= lower.loss) {
        higher = now;
        low = lower_end();
        continue;
      }
      const bool done = flat(now);
      if (!done && now.slope * (higher.length - lower.length) >= 0.0) higher = lower;
      lower = now;
      if (done) break;
    }
    return ends_[low];
  }

  const std::function<LineTrial(double)>& evaluate_;
  const LineTrial& start_;
  std::array<LineTrial, 2> ends_;
  int trials_ = 0;
};

}  // namespace

LineTrial strong_wolfe(const std::function<LineTrial(double length)>& evaluate, const LineTrial& start, double length,
                       double unit, double tolerance) {
  return Search(evaluate, start).run(length, unit, tolerance);
}

}  // namespace adjoint::optim
