// interpolate as a module.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/resample/resample.h>

namespace adjoint::nn {

using UpsampleOptions = InterpolateParams;

/// nn::Upsample({.scale_factor = 2.0, .mode = Interpolation::kBilinear}); interpolate (ops/resample/resample.h) has the
/// rules, and throws what it throws at the call.
class ADJOINT_API Upsample : public Module {
 public:
  /// Throws Error for a mode that is none.
  explicit Upsample(const UpsampleOptions& options);
  Tensor operator()(const Tensor& input) const;
  const UpsampleOptions& options() const { return options_; }

 private:
  UpsampleOptions options_;
};

}  // namespace adjoint::nn
