#include <adjoint/nn/upsample.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn {

Upsample::Upsample(const UpsampleOptions& options) : Module("Upsample"), options_(options) {
  check_enumerator("Upsample", "Interpolation", Interpolation(options.mode), Interpolation::kArea);
  const bool has_size = !(options.size == Size2{});
  set_description((has_size ? fmt::format("size=({}, {})", options.size.h, options.size.w)
                            : fmt::format("scale_factor=({}, {})", options.scale_factor.h, options.scale_factor.w)) +
                  fmt::format(", mode={}", to_string(options.mode)));
}

Upsample::Upsample(const Size2& size, const Scale2& scale_factor, Named<Interpolation> mode, bool align_corners)
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
