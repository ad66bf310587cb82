// Exponential moving averages of a network's weights, to evaluate with.
//
//   optim::EMA ema(net, {.decay = 0.999});
//   ...
//   adam.step();
//   ema.update();
//   ...
//   {
//     const auto averaged = ema.apply();  // the network computes with the averages while it lives
//     evaluate(net);
//   }
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::optim {

struct EMAOptions {
  /// The share of the average that an update keeps, in [0, 1).
  double decay = 0.999;
  /// Update n, counted from 0, uses min(decay, (1 + n) / (10 + n)) instead, so that the first weights are soon
  /// forgotten.
  bool warmup = false;
  /// Averages floating-point buffers, such as BatchNorm's running statistics, too. If false, the network keeps its own.
  bool use_buffers = false;
};

/// A class with named parameters and buffers, such as nn::Module.
template <class M>
concept HasNamedTensors = requires(const M& module) {
  { module.named_parameters() } -> std::convertible_to<NamedTensors>;
  { module.named_buffers() } -> std::convertible_to<NamedTensors>;
};

/// PyTorch's AveragedModel with an exponential average: the first update copies the weights, and later ones set average
/// = decay * average + (1 - decay) * weight. Averages of float16 and bfloat16 weights are float32; averages follow a
/// weight that is moved or converted. Integer buffers are never averaged.
class ADJOINT_API EMA {
 public:
  /// Both throw Error for a decay outside [0, 1), for tensors that are not contiguous floating-point leaves, and if
  /// there are no tensors.
  template <HasNamedTensors M>
  explicit EMA(const M& module, const EMAOptions& options = {})
      : EMA(module.named_parameters(), module.named_buffers(), options) {}
  /// Names the weights by position: "0", "1", ...
  explicit EMA(const std::vector<Tensor>& parameters, const EMAOptions& options = {});

  /// Adds the weights to the averages; not recorded. One pass over memory. Throws Error while a guard of apply() lives.
  /// If memory runs out nothing has changed.
  void update();
  /// The number of updates so far.
  std::int64_t n_averaged() const { return n_averaged_; }

  /// While it lives, the weights are the averages; its destructor restores the weights.
  class ADJOINT_API Guard {
   public:
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard();

   private:
    friend class EMA;
    explicit Guard(EMA& ema) : ema_(ema) {}
    EMA& ema_;
  };
  /// Throws Error before the first update and if a guard already lives. Operations that tapes recorded with the weights
  /// can no longer be differentiated. The EMA must outlive the guard. If memory runs out nothing has changed; the
  /// guard's destructor allocates only if weights were moved or converted meanwhile.
  [[nodiscard]] Guard apply() &;

  // Both throw Error while a guard of apply() lives: a checkpoint would hold the averages in place of the weights, and
  // loaded weights would be lost when the guard ends.

  /// "n_averaged" (int64) and each average, under PyTorch's name "module.<name>"; they share elements with the EMA.
  NamedTensors state_dict() const;
  /// Copies the state in. Throws Error, and changes nothing, for names, shapes or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 private:
  struct Entry {
    std::string name;  // "module.<name>"
    Tensor weight;
    Tensor average;
  };
  struct Applied;

  EMA(NamedTensors parameters, const NamedTensors& buffers, const EMAOptions& options);
  void check_not_applied(const char* op) const;
  double decay() const;

  EMAOptions options_;
  std::vector<Entry> entries_;
  std::int64_t n_averaged_ = 0;
  std::uint64_t loads_ = 0;           // number of loads of state: captured steps know the old state's addresses
  std::shared_ptr<Applied> applied_;  // while a guard lives
};

}  // namespace adjoint::optim
