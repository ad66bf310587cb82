// Plans depthwise convolutions of channels_last tensors.
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
  if (g.taps() > kMostDepthwiseTaps || (transposed && (g.stride.h != 1 || g.stride.w != 1))) return false;
  const auto &source = transposed ? g.feature : g.image, &result = transposed ? g.image : g.feature;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;
  const std::int64_t strips_of_row = ceil_div(result.w, std::int64_t{kDepthwisePositions});
  plan = {};
  plan.strips = g.batch * result.h * strips_of_row;
  if (plan.strips < 1 || plan.strips > kMost || channels > kMost || source.h > kMost || source.w > kMost) return false;
  plan.channels = static_cast<std::int32_t>(channels);
  plan.height = static_cast<std::int32_t>(source.h);
  plan.width = static_cast<std::int32_t>(source.w);
  plan.result_width = static_cast<std::int32_t>(result.w);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = g.dilation.in_plane(axis) * (g.kernel.in_plane(axis) - 1);
    if (reach > kMost || g.padding.in_plane(axis) > kMost || g.stride.in_plane(axis) > kMost) return false;
    plan.kernel[axis] = static_cast<std::int32_t>(g.kernel.in_plane(axis));
    plan.stride[axis] = static_cast<std::int32_t>(g.stride.in_plane(axis));
    plan.first[axis] =
        static_cast<std::int32_t>(transposed ? g.padding.in_plane(axis) - reach : -g.padding.in_plane(axis));
    plan.between[axis] = static_cast<std::int32_t>(g.dilation.in_plane(axis));
  }
  plan.turned = transposed;
  plan.strips_of_row = Divider(static_cast<std::uint32_t>(strips_of_row));
  plan.result_height = Divider(static_cast<std::uint32_t>(result.h));
  return true;
}

double depthwise_clocks(const DepthwisePlan& plan, std::int32_t element_bytes, const Machine& machine) {
  // Instructions of a product and of a pack that is read, issued by four concurrent schedulers; a block's beginning.
  constexpr double kOfProduct = 1.3, kOfRead = 14, kOfStrip = 120, kIssued = 2.4, kStart = 3000, kWrittenBytes = 1700;
  const double pack = DepthwisePlan::pack(element_bytes), columns = plan.kernel[1];
  const double reads = plan.slides() ? columns + kDepthwisePositions - 1 : columns * kDepthwisePositions;
  const double strip =
      plan.kernel[0] * (columns * kDepthwisePositions * pack * kOfProduct + reads * kOfRead) + kOfStrip;
  const double packs = plan.channels / pack, warps = static_cast<double>(plan.strips) * packs / 32;
  const double bytes = 2.0 * element_bytes * static_cast<double>(plan.strips) * kDepthwisePositions * plan.channels;
  return kStart + std::max(warps * strip / (kIssued * machine.multiprocessors), bytes / kWrittenBytes);
}

bool plan_depthwise_weight(const ConvGeometry& g, std::int32_t element_bytes, const Machine& machine,
                           DepthwiseWeightPlan& plan) {
  constexpr std::int32_t kColumns = 4, kBlocksOfMultiprocessor = 2;
  plan = {};
  if (!plan_depthwise(g, false, element_bytes, plan.walk)) return false;
  const std::int32_t width = plan.walk.kernel[1], lanes = plan.walk.lanes(element_bytes);
  plan.columns = plan.walk.slides() && (width == 3 || width == 5 || width == 7) ? width : kColumns;
  const std::int32_t row_jobs = (width + plan.columns - 1) / plan.columns;
  plan.row_jobs = Divider(static_cast<std::uint32_t>(row_jobs));
  plan.jobs = plan.walk.kernel[0] * row_jobs;
  plan.jobs_of_block = std::min(plan.jobs, kDepthwiseThreads / lanes);
  const std::int64_t blocks = ceil_div(std::int64_t{plan.walk.channels}, lanes * DepthwisePlan::pack(element_bytes)) *
                              ceil_div(plan.jobs, plan.jobs_of_block);
  const std::int64_t walks = plan.walks(element_bytes),
                     most = std::max<std::int64_t>(1, kBlocksOfMultiprocessor * machine.multiprocessors / blocks);
  plan.slice_strips = static_cast<std::int32_t>(ceil_div(ceil_div(plan.walk.strips, most), walks) * walks);
  plan.slices = static_cast<std::int32_t>(ceil_div(plan.walk.strips, std::int64_t{plan.slice_strips}));
  return true;
}

double depthwise_weight_clocks(const DepthwiseWeightPlan& plan, std::int32_t element_bytes, const Machine& machine) {
  // As in depthwise_clocks; the slices' beginning and end, and their addition.
  constexpr double kOfProduct = 1.3, kOfRead = 14, kOfStrip = 120, kIssued = 2.4, kStart = 9000, kReadBytes = 1700;
  const double pack = DepthwisePlan::pack(element_bytes), columns = plan.columns;
  const double reads =
      kDepthwisePositions + (plan.walk.slides() ? columns + kDepthwisePositions - 1 : columns * kDepthwisePositions);
  const double strip = columns * kDepthwisePositions * pack * kOfProduct + reads * kOfRead + kOfStrip;
  const double packs = plan.walk.channels / pack, strips = static_cast<double>(plan.walk.strips);
  const double bytes = 2.0 * element_bytes * strips * kDepthwisePositions * plan.walk.channels;
  return kStart +
         std::max(strips * packs * plan.jobs / 32 * strip / (kIssued * machine.multiprocessors), bytes / kReadBytes);
}

}  // namespace adjoint::cuda
