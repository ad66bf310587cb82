// Plans depthwise conv of channels_last tensors.
#include <adjoint/ops/conv/channelwise/depthwise.h>

#include <adjoint/ops/conv/base/numbers.h>

#include <algorithm>
#include <limits>

namespace adjoint::cuda {

bool plan_depthwise(const ConvGeometry& g, bool transposed, std::int32_t element_bytes, DepthwisePlan& plan) {
  const std::int64_t channels = g.image_channels;
  if (g.groups != channels || g.feature_channels != channels || channels % DepthwisePlan::pack(element_bytes) != 0) {
    return false;
  }
  if (g.taps() > kMostDepthwiseTaps || (transposed && (g.stride[0] != 1 || g.stride[1] != 1))) return false;
  const auto &source = transposed ? g.feature : g.image, &result = transposed ? g.image : g.feature;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;
  const std::int64_t strips_of_row = ceil_div(result[1], std::int64_t{kDepthwisePositions});
  plan = {};
  plan.strips = g.batch * result[0] * strips_of_row;
  if (plan.strips < 1 || plan.strips > kMost || channels > kMost || source[0] > kMost || source[1] > kMost)
    return false;
  plan.channels = static_cast<std::int32_t>(channels);
  plan.height = static_cast<std::int32_t>(source[0]);
  plan.width = static_cast<std::int32_t>(source[1]);
  plan.result_width = static_cast<std::int32_t>(result[1]);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = g.dilation[axis] * (g.kernel[axis] - 1);
    if (reach > kMost || g.padding[axis] > kMost || g.stride[axis] > kMost) return false;
    plan.kernel[axis] = static_cast<std::int32_t>(g.kernel[axis]);
    plan.stride[axis] = static_cast<std::int32_t>(g.stride[axis]);
    plan.first[axis] = static_cast<std::int32_t>(transposed ? g.padding[axis] - reach : -g.padding[axis]);
    plan.between[axis] = static_cast<std::int32_t>(g.dilation[axis]);
  }
  plan.turned = transposed;
  plan.strips_of_row = Divider(static_cast<std::uint32_t>(strips_of_row));
  plan.result_height = Divider(static_cast<std::uint32_t>(result[0]));
  return true;
}

double depthwise_clocks(const DepthwisePlan& plan, std::int32_t element_bytes, const Machine& machine) {
  // Instructions of a product and of a pack that is read, issued by four schedulers at once; a block's beginning.
  constexpr double kOfProduct = 1.3, kOfRead = 14, kOfStrip = 120, kIssued = 2.4, kStart = 3000, kWrittenBytes = 1700;
  const double pack = DepthwisePlan::pack(element_bytes), columns = plan.kernel[1];
  const double reads = plan.slides() ? columns + kDepthwisePositions - 1 : columns * kDepthwisePositions;
  const double strip =
      plan.kernel[0] * (columns * kDepthwisePositions * pack * kOfProduct + reads * kOfRead) + kOfStrip;
  const double packs = plan.channels / pack, warps = static_cast<double>(plan.strips) * packs / 32;
  const double bytes = 2.0 * element_bytes * static_cast<double>(plan.strips) * kDepthwisePositions * plan.channels;
  return kStart + std::max(warps * strip / (kIssued * machine.multiprocessors), bytes / kWrittenBytes);
}

}  // namespace adjoint::cuda
