// ReduceLROnPlateau: a smaller learning rate where a metric has stopped improving.
//
//   optim::ReduceLROnPlateau schedule(adam, {.patience = 5});
//   for (...) { train(); schedule.step(validation_loss()); }
#pragma once

#include <adjoint/optim/schedule.h>

#include <cstdint>
#include <vector>

namespace adjoint::optim {

/// Which metric is better: the smaller, as a loss, or the larger, as an accuracy.
enum class PlateauMode { kMin, kMax };
/// What threshold is: a share of the best metric, or an amount.
enum class ThresholdMode { kRel, kAbs };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::kMin;
  /// The learning rates' factor, in [0, 1).
  double factor = 0.1;
  /// Steps without improvement that are put up with.
  std::int64_t patience = 10;
  /// What a metric must be better than the best by.
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  /// Steps after a reduction in which nothing is counted.
  std::int64_t cooldown = 0;
  double min_lr = 0.0;
  /// Changes up to this are not made.
  double eps = 1e-8;
  /// Its steps count no metric.
  Warmup warmup = {};
};

/// PyTorch's ReduceLROnPlateau, after a warm-up. Multiplies each group's own learning rate. A metric that is NaN is no
/// improvement.
class ADJOINT_API ReduceLROnPlateau {
 public:
  /// Throws Error for options out of their ranges, and where the optimiser has a schedule already. The optimiser must
  /// outlive the schedule and stay where it is.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(const ReduceLROnPlateau&) = delete;
  ReduceLROnPlateau& operator=(const ReduceLROnPlateau&) = delete;

  void step(double metric);
  /// Steps so far.
  std::int64_t last_epoch() const { return state_.last_epoch; }

  /// "last_epoch", "num_bad_epochs", "cooldown_counter" (int64), "best" and, one for each group, "base_lr" (float64).
  /// The learning rates are in the optimiser's state.
  NamedTensors state_dict() const;
  /// Throws Error, and changes nothing, for names, shapes or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 private:
  struct State {
    double best;
    std::int64_t last_epoch = 0, num_bad_epochs = 0, cooldown_counter = 0;
  };

  bool is_better(double metric) const;
  void warm_up();
  void reduce();

  ReduceLROnPlateauOptions options_;
  detail::ScheduleHold hold_;
  std::vector<double> base_lrs_;  // of the groups at construction
  State state_;
};

}  // namespace adjoint::optim
