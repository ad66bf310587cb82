// GradScaler: keeps small gradients in float16's range by scaling the loss.
//
//   optim::GradScaler scaler;
//   ...
//   tape.backward(scaler.scale(loss));
//   scaler.step(adam, {.max_norm = 1.0});  // or step(adam); unscale_(adam) before is for what reads the gradients
//   scaler.update();
//   adam.zero_grad();
#pragma once

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>
#include <adjoint/optim/optimizer.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace adjoint::optim {

struct GradScalerOptions {
  /// Above 0 and finite in float32.
  double init_scale = 65536.0;
  /// Above 1: what the scale is multiplied by after growth_interval updates in a row without an infinite gradient.
  double growth_factor = 2.0;
  /// Above 0 and below 1: what it is multiplied by where a gradient was infinite or NaN.
  double backoff_factor = 0.5;
  /// At least 1.
  std::int64_t growth_interval = 2000;
  /// False: scale() returns the loss as it is, step() steps the optimiser, and all else does nothing.
  bool enabled = true;
};

/// PyTorch's GradScaler (Micikevicius et al.: "Mixed precision training", 2018). The scale grows as long as gradients
/// are finite; where one is not, the optimiser that it belongs to leaves out its step, and the scale shrinks once in
/// the next update(). Scale (float32) and the count of finite updates lie on the device of the first loss. Nothing
/// waits for the device, so that a whole step can be captured (GraphedStep); but for optimisers that override update()
/// step() waits for it once, to read whether a gradient was infinite, and where the optimiser's parameters lie on a GPU
/// and on the CPU.
///
/// All optimisers step between two updates. step() reads the gradients twice, for the infinite ones (with a max_norm
/// for their norm too, on that way) and, unscaled and clipped in the precision of the update, for the update, and
/// leaves them as they are. unscale_() divides them in their dtype (PyTorch refuses float16's): in float16 what is
/// below 6e-8 then is 0. Parameters in float32 inside an AutocastGuard have float32 gradients, which lose nothing.
class ADJOINT_API GradScaler {
 public:
  /// Throws Error for options that are none.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// loss (any shape) times the scale, recorded: in float32 where the loss is of half precision, else in its dtype.
  /// Throws Error for a dtype that is not floating point.
  [[nodiscard]] Tensor scale(const Tensor& loss);
  /// Divides the gradients of all the optimiser's parameters by the scale, in place (as clip_grad_norm_ does), and
  /// notes on the device whether one was infinite or NaN. Throws Error before the first scale(), the second time since
  /// update(), and after step().
  void unscale_(const Optimizer& optimizer);
  /// optimizer.step(options) with the gradients divided by the scale, unless unscale_() did that since update(). Where
  /// one of them is infinite or NaN nothing is updated, and the optimiser does not count the step; its host learns that
  /// in state_dict(). Gradients are left as they are, but for an optimiser that overrides update(), which gets them
  /// unscaled. Returns the norm of the divided gradients where there is a max_norm. Throws Error before the first
  /// scale(), the second time since update(), where no parameter has a gradient, and as optimizer.step() does, behind
  /// which step() can be called again.
  Tensor step(Optimizer& optimizer, const StepOptions& options = {});
  /// Throws Error before the first scale(), and where no optimiser's gradients were unscaled since the last update().
  void update();
  /// Sets the scale. Throws Error before the first scale(), and unless it is above 0 and finite in float32.
  void update(double new_scale);

  /// The scale as it is now; 1 where disabled. Waits for the device.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  std::int64_t get_growth_interval() const { return options_.growth_interval; }

  /// "scale" (float32), "growth_factor", "backoff_factor" (float64), "growth_interval" and "_growth_tracker" (int64);
  /// scale and tracker share elements with it. Empty where disabled. To be called after update(): what unscale_() noted
  /// is not in it.
  NamedTensors state_dict() const;
  /// Copies the state in; where disabled, does nothing. Throws Error, and changes nothing, for names, dtypes, shapes or
  /// values that do not fit, and between unscale_() and update().
  void load_state_dict(const NamedTensors& state);

 private:
  struct State {
    std::vector<Tensor> found_inf;  // float32 scalars, one for each device with gradients
    bool stepped = false;
  };

  void check_scaled(const char* op) const;
  State unscaled(const char* op, const Optimizer& optimizer) const;
  State& note_unscaled(const char* op, const Optimizer& optimizer);
  State step_fused(Optimizer& optimizer, const StepOptions& options, const State* unscaled, Tensor& norm) const;

  GradScalerOptions options_;
  Tensor scale_;                                        // float32, a scalar
  Tensor growth_tracker_;                               // int64, a scalar, on the same device
  bool scaled_ = false;                                 // since then the two stay on their device
  std::uint64_t loads_ = 0;                             // of state: captured steps know the old one's factors
  std::unordered_map<const Optimizer*, State> states_;  // of those that were unscaled since the last update()
};

}  // namespace adjoint::optim
