#include <adjoint/nn/upsample.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn {

Upsample::Upsample(const UpsampleOptions& options) : Module("Upsample"), options_(options) {
  check_enumerator("Upsample", "Interpolation", Interpolation(options.mode), Interpolation::kArea);
  // One number for all axes is printed for two, as for images.
  const auto text = [](const auto& of) {
    const bool is_volume = of.d != 0 && !(of.d == of.h && of.h == of.w);
    return is_volume ? fmt::format("({}, {}, {})", of.d, of.h, of.w) : fmt::format("({}, {})", of.h, of.w);
  };
  const bool has_size = !(options.size == AxisSizes{});
  set_description((has_size ? "size=" + text(options.size) : "scale_factor=" + text(options.scale_factor)) +
                  fmt::format(", mode={}", to_string(options.mode)));
}

Upsample::Upsample(const AxisSizes& size, const AxisScales& scale_factor, Named<Interpolation> mode, bool align_corners)
    : Upsample(
          UpsampleOptions{.size = size, .scale_factor = scale_factor, .mode = mode, .align_corners = align_corners}) {}

Tensor Upsample::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope("Upsample");
    check_not_moved_from("Upsample");
    return interpolate(x, options_);
  });
}

}  // namespace adjoint::nn
