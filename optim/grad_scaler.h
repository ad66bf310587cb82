// GradScaler: keeps small gradients in float16's range by scaling the loss.
//
//   optim::GradScaler scaler;
//   ...
//   tape.backward(scaler.scale(loss));
//   scaler.step(adam, {.max_norm = 1.0});  // or step(adam); call unscale_(adam) before reading gradients
//   scaler.update();
//   adam.zero_grad();
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/optim/optimizer.h>

#include <cstdint>
#include <vector>

namespace adjoint::optim {

struct GradScalerOptions {
  /// Above 0 and finite in float32.
  double init_scale = 65536.0;
  /// Above 1: the factor of the scale after growth_interval updates in a row without an infinite gradient.
  double growth_factor = 2.0;
  /// Above 0 and below 1: the factor of the scale if a gradient was infinite or NaN.
  double backoff_factor = 0.5;
  /// At least 1.
  std::int64_t growth_interval = 2000;
  /// If false, scale() returns the loss unchanged, step() steps the optimiser, and all other functions do nothing.
  bool enabled = true;
};

/// PyTorch's GradScaler (Micikevicius et al.: "Mixed precision training", 2018). The scale grows while gradients are
/// finite. If one is not, its optimiser skips its step, and the scale shrinks once in the next update(). Scale
/// (float32) and the count of finite updates are on the device of the first loss. Nothing waits for the device, so a
/// whole step can be captured (GraphedStep), with two exceptions. For optimisers that override update(), step() waits
/// for it once, to read if a gradient was infinite; it also waits if the optimiser's parameters are on a GPU and on the
/// CPU.
///
/// All optimisers step between two updates. step() reads the gradients twice and does not change them: once for
/// infinite ones (and, with a max_norm, for their norm), and once for the update, unscaled and clipped in the precision
/// of the update. unscale_() divides them in their dtype (PyTorch refuses float16's), and in float16 small results
/// become 0. Parameters in float32 inside an AutocastGuard have float32 gradients, which do not underflow.
class ADJOINT_API GradScaler {
 public:
  /// Throws Error for invalid options.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// loss (any shape) times the scale, recorded: in float32 if the loss has half precision, else in its dtype. Throws
  /// Error for a dtype that is not floating point.
  [[nodiscard]] Tensor scale(const Tensor& loss);
  /// Divides the gradients of all the optimiser's parameters by the scale, in place (as clip_grad_norm_ does), and
  /// records on the device if one was infinite or NaN. Throws Error before the first scale(), the second time since
  /// update(), and after step().
  void unscale_(const Optimizer& optimizer);
  /// optimizer.step(options) with the gradients divided by the scale, unless unscale_() did that since update(). If one
  /// of them is infinite or NaN nothing is updated, and the optimiser does not count the step; its host learns that in
  /// state_dict(). Gradients stay unchanged, except for an optimiser that overrides update(), which gets them unscaled.
  /// Returns the norm of the divided gradients if there is a max_norm. Throws Error before the first scale(), the
  /// second time since update(), if no parameter has a gradient, and as optimizer.step() does; after that step() can be
  /// called again.
  Tensor step(Optimizer& optimizer, const StepOptions& options = {});
  /// Throws Error before the first scale(), and if no optimiser's gradients were unscaled since the last update().
  void update();
  /// Sets the scale. Throws Error before the first scale(), and unless it is above 0 and finite in float32.
  void update(double new_scale);

  /// The current scale; 1 if disabled. Waits for the device.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  std::int64_t get_growth_interval() const { return options_.growth_interval; }

  /// "scale" (float32), "growth_factor", "backoff_factor" (float64), "growth_interval" and "_growth_tracker" (int64);
  /// scale and tracker share elements with the scaler. Empty if disabled. Call it after update(): it does not contain
  /// the flags of unscale_().
  NamedTensors state_dict() const;
  /// Copies the state in; does nothing if disabled. Throws Error, and changes nothing, for names, dtypes, shapes or
  /// values that do not fit, and between unscale_() and update().
  void load_state_dict(const NamedTensors& state);

 private:
  struct State {
    const Optimizer* optimizer = nullptr;
    std::vector<Tensor> found_inf = {};  // float32 scalars, one per device with gradients
    bool stepped = false;
  };

  void check_scaled(const char* op) const;
  State* state_of(const Optimizer& optimizer);
  State unscaled(const char* op, const Optimizer& optimizer) const;
  State& note_unscaled(const char* op, const Optimizer& optimizer);
  State step_fused(Optimizer& optimizer, const StepOptions& options, const State* unscaled, Tensor& norm) const;

  GradScalerOptions options_;
  Tensor scale_;               // float32, a scalar
  Tensor growth_tracker_;      // int64, a scalar, on the same device
  bool scaled_ = false;        // from then on the two stay on their device
  std::uint64_t loads_ = 0;    // number of loads of state: captured steps know the old state's factors
  std::vector<State> states_;  // of optimisers unscaled since the last update()
};

}  // namespace adjoint::optim
