// interpolate as a module.
#pragma once

#include <adjoint/nn/module.h>
#include <adjoint/ops/resample/resample.h>

namespace adjoint::nn {

using UpsampleOptions = InterpolateParams;

/// nn::Upsample({.scale_factor = 2, .mode = "bilinear"}), or in PyTorch's order, with the result's size first and a
/// factor second: nn::Upsample(64), nn::Upsample(0, 2.0, "bilinear"). interpolate (ops/resample/resample.h) has the
/// rules, and the call throws its errors.
class ADJOINT_API Upsample : public Module {
 public:
  /// Throws Error for an invalid mode.
  explicit Upsample(const UpsampleOptions& options);
  explicit Upsample(const AxisSizes& size, const AxisScales& scale_factor = 0.0,
                    Named<Interpolation> mode = Interpolation::kNearest, bool align_corners = false);
  Tensor forward(const Tensor& input) const { return (*this)(input); }
  Tensor operator()(const Tensor& input) const;
  const UpsampleOptions& options() const { return options_; }

 protected:
  /// The mode's own settings replace the options'.
  static UpsampleOptions with_mode(UpsampleOptions options, Interpolation mode) {
    options.mode = mode;
    options.align_corners = mode == Interpolation::kBilinear;
    return options;
  }

 private:
  UpsampleOptions options_;
};

/// Two modes of Upsample under separate names, the second with the corners' centres aligned:
/// nn::UpsamplingBilinear2d(2), nn::UpsamplingBilinear2d({.size = {12, 5}}).
class ADJOINT_API UpsamplingNearest2d : public Upsample {
 public:
  explicit UpsamplingNearest2d(UpsampleOptions options) : Upsample(with_mode(options, Interpolation::kNearest)) {}
  explicit UpsamplingNearest2d(double scale_factor) : UpsamplingNearest2d({.scale_factor = scale_factor}) {}
};
class ADJOINT_API UpsamplingBilinear2d : public Upsample {
 public:
  explicit UpsamplingBilinear2d(UpsampleOptions options) : Upsample(with_mode(options, Interpolation::kBilinear)) {}
  explicit UpsamplingBilinear2d(double scale_factor) : UpsamplingBilinear2d({.scale_factor = scale_factor}) {}
};

}  // namespace adjoint::nn
