#include <adjoint/nn/pad.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn::detail {

Padding::Padding(const char* type, std::size_t axes, const std::vector<std::int64_t>& padding, PadMode mode,
                 double value)
    : Module(type), padding_(padding), mode_(mode), value_(value) {
  ADJOINT_CHECK(padding.size() == 2 * axes, "{}: padding must be one number or {}; got {}", type, 2 * axes,
                padding.size());
  const Dims sides(padding);
  set_description(value == 0.0 ? to_string(sides) : fmt::format("padding={}, value={}", sides, value));
}

Tensor Padding::operator()(const Tensor& input) const {
  return hooked(input, [&](const Tensor& x) {
    const OpScope scope(type().c_str());
    check_not_moved_from("Padding");
    return pad(x, padding_, mode_, value_);
  });
}

}  // namespace adjoint::nn::detail
