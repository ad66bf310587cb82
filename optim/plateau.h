// ReduceLROnPlateau: reduces the learning rate when a metric has stopped improving.
//
//   optim::ReduceLROnPlateau schedule(adam, {.patience = 5});
//   for (...) { train(); schedule.step(validation_loss()); }
#pragma once

#include <adjoint/core/tensor/named.h>
#include <adjoint/optim/schedule.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace adjoint::optim {

/// The better metric: the smaller, such as a loss, or the larger, such as an accuracy.
enum class PlateauMode { kMin, kMax };
/// The threshold is a share of the best metric, or an amount.
enum class ThresholdMode { kRel, kAbs };

/// "min", "max"; "rel", "abs".
ADJOINT_API PlateauMode enumerator(std::string_view name, PlateauMode);
ADJOINT_API ThresholdMode enumerator(std::string_view name, ThresholdMode);

struct ReduceLROnPlateauOptions {
  Named<PlateauMode> mode = PlateauMode::kMin;
  /// The factor of the learning rates, in [0, 1).
  double factor = 0.1;
  /// The number of steps without improvement before a reduction.
  std::int64_t patience = 10;
  /// The least improvement on the best metric that counts.
  double threshold = 1e-4;
  Named<ThresholdMode> threshold_mode = ThresholdMode::kRel;
  /// The number of steps after a reduction that do not count.
  std::int64_t cooldown = 0;
  double min_lr = 0.0;
  /// Smaller changes of a learning rate are not made.
  double eps = 1e-8;
  /// The warm-up's steps ignore the metric.
  Warmup warmup = {};
};

/// PyTorch's ReduceLROnPlateau, after a warm-up. Multiplies each group's own learning rate. A metric that is NaN is no
/// improvement.
class ADJOINT_API ReduceLROnPlateau {
 public:
  /// Throws Error for options out of their ranges, and if the optimiser already has a schedule. The optimiser must
  /// outlive the schedule and stay in place.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(const ReduceLROnPlateau&) = delete;
  ReduceLROnPlateau& operator=(const ReduceLROnPlateau&) = delete;

  void step(double metric);
  /// Steps so far.
  std::int64_t last_epoch() const { return state_.last_epoch; }

  /// "last_epoch", "num_bad_epochs", "cooldown_counter" (int64), "best" and, one for each group, "base_lr" (float64).
  /// The optimiser's state holds the learning rates.
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
