#include <adjoint/ops/conv/choose/cuda/channels_last.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/choose/cuda/dispatch.h>
#include <adjoint/ops/conv/pipeline/cuda/pipeline.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace adjoint::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16;  // bytes, of the copy engine's addresses and strides
constexpr double kLaunchMicroseconds = 3;
constexpr std::int64_t kLeastSourceBytes = 32;  // of a position's channels

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

std::int32_t bytes_of(const ConvProblem& problem) { return static_cast<std::int32_t>(element_size(problem.dtype)); }

/// The problem with channels up to multiples of 16 bytes.
ConvGeometry padded_geometry(const ConvProblem& problem) {
  ConvGeometry g = problem.geometry;
  const std::int64_t multiple = static_cast<std::int64_t>(kAlignment) / bytes_of(problem);
  g.image_channels = ceil_div(g.image_channels, multiple) * multiple;
  g.feature_channels = ceil_div(g.feature_channels, multiple) * multiple;
  return g;
}

double copied_microseconds(double elements, const ConvProblem& problem) {
  return kLaunchMicroseconds + elements * bytes_of(problem) / kBytesPerMicrosecond;
}

/// Image and feature copied to the other order, one before the fastest kernel and one after it, and the filter if it is
/// in channels_last.
double microseconds_by_copies(ConvProblem problem) {
  ConvGeometry& g = problem.geometry;
  if (!is_planar(g)) return std::numeric_limits<double>::infinity();  // only the plain kernels support volumes
  const double of_filter =
      problem.filter_is_channels_last ? copied_microseconds(2.0 * static_cast<double>(g.filter_numel()), problem) : 0.0;
  g = simplified(g, problem.role == ConvRole::kImage && problem.bias != nullptr);
  return of_filter + conv_kernel_microseconds(best_conv_kernel(problem), problem) +
         copied_microseconds(2.0 * static_cast<double>(g.image_numel()), problem) +
         copied_microseconds(2.0 * static_cast<double>(g.feature_numel()), problem);
}

/// The time of a plan of so many clocks, with copies of the padded operands, and of the filter if it must be ordered.
double microseconds_of(double clocks, bool orders_filter, const ConvProblem& problem) {
  const ConvGeometry &given = problem.geometry, padded = padded_geometry(problem);
  double microseconds = clocks / kClocksPerMicrosecond + kLaunchMicroseconds;
  const auto add_padding = [&](std::int64_t from, std::int64_t to) {
    if (from != to) microseconds += copied_microseconds(static_cast<double>(from + to), problem);
  };
  if (orders_filter) microseconds += copied_microseconds(2.0 * static_cast<double>(given.filter_numel()), problem);
  if (!problem.image_is_padded) add_padding(given.image_numel(), padded.image_numel());
  add_padding(given.feature_numel(), padded.feature_numel());
  return microseconds;
}

/// An operand as the pipeline reads it: itself, or a copy whose rows of channels are padded.
class PaddedOperand {
 public:
  PaddedOperand(const ConvProblem& problem, const void* data, std::int64_t rows, std::int64_t channels,
                std::int64_t padded)
      : data_(data) {
    if (padded == channels || data == nullptr) return;
    copy_.emplace(static_cast<std::size_t>(rows * padded * bytes_of(problem)), problem.device);
    pad_channels(rows, channels, bytes_of(problem), data, copy_->data(), problem.device);
    data_ = copy_->data();
  }
  const void* data() const { return data_; }

 private:
  std::optional<Workspace> copy_;
  const void* data_;
};

/// Channels of a row of the image in memory.
std::int64_t given_image_channels(const ConvProblem& problem) {
  return (problem.image_is_padded ? padded_geometry(problem) : problem.geometry).image_channels;
}

/// For sources of fewer than kLeastSourceBytes.
bool run_few(const ConvProblem& problem) {
  const bool transposed = problem.role == ConvRole::kImage;
  const auto* const plan = keep_plan<FewSourcesPlan>(problem, [&](FewSourcesPlan& made) {
    return plan_few_sources(problem.geometry, transposed, problem.filter_is_channels_last, arithmetic_of(problem),
                            made) &&
           few_sources_clocks(made, arithmetic_of(problem), problem.machine) / kClocksPerMicrosecond <
               microseconds_by_copies(problem);
  });
  if (plan == nullptr) return false;
  run_few_sources(*plan, arithmetic_of(problem),
                  {.source = problem.first,
                   .filter = problem.second,
                   .bias = problem.bias,
                   .result = problem.out,
                   .activation = problem.activation},
                  problem.device);
  return true;
}

bool run_each_channel_weight(const ConvProblem& problem) {
  if (!is_aligned(problem.first) || !is_aligned(problem.second)) return false;
  const auto* const plan = keep_plan<DepthwiseWeightPlan>(problem, [&](DepthwiseWeightPlan& made) {
    return plan_depthwise_weight(problem.geometry, bytes_of(problem), problem.machine, made) &&
           depthwise_weight_clocks(made, bytes_of(problem), problem.machine) / kClocksPerMicrosecond <
               microseconds_by_copies(problem);
  });
  if (plan == nullptr) return false;
  const Workspace sums(static_cast<std::size_t>(plan->sums_bytes()), problem.device);
  run_depthwise_weight_of(*plan, problem, static_cast<float*>(sums.data()));
  add_slices(problem, static_cast<const float*>(sums.data()), plan->slices);
  return true;
}

/// For one channel a group.
bool run_each_channel(const ConvProblem& problem) {
  if (problem.role == ConvRole::kFilter) return run_each_channel_weight(problem);
  if (!is_aligned(problem.first) || !is_aligned(problem.out)) return false;
  const auto* const plan = keep_plan<DepthwisePlan>(problem, [&](DepthwisePlan& made) {
    return plan_depthwise(problem.geometry, problem.role == ConvRole::kImage, bytes_of(problem), made) &&
           depthwise_clocks(made, bytes_of(problem), problem.machine) / kClocksPerMicrosecond <
               microseconds_by_copies(problem);
  });
  if (plan == nullptr) return false;
  run_depthwise_of(*plan, problem);
  return true;
}

/// Returns true if the filter must be reordered: wgmma reads halves with either axis innermost, tf32 only with
/// channels.
bool orders_filter(const ConvProblem& problem) {
  return !problem.filter_is_channels_last || padded_geometry(problem) != problem.geometry ||
         (problem.role == ConvRole::kImage && problem.dtype == kFloat32);
}

/// Finds the plan of conv or conv_transpose. Returns null if no plan exists or if copies are faster.
const PipelinePlan* result_plan(const ConvProblem& problem) {
  return keep_plan<PipelinePlan>(problem, [&](PipelinePlan& made) {
    return plan_pipeline(pipeline_geometry(padded_geometry(problem), problem.role == ConvRole::kImage),
                         arithmetic_of(problem), problem.machine, made) &&
           microseconds_of(pipeline_clocks(made, problem.machine), orders_filter(problem), problem) <
               microseconds_by_copies(problem);
  });
}

/// The same for conv_weight.
const PipelineWeightPlan* weight_plan(const ConvProblem& problem) {
  return keep_plan<PipelineWeightPlan>(problem, [&](PipelineWeightPlan& made) {
    return plan_pipeline_weight(pipeline_geometry(padded_geometry(problem), false), arithmetic_of(problem),
                                problem.machine, made) &&
           microseconds_of(pipeline_weight_clocks(made, problem.machine), false, problem) <
               microseconds_by_copies(problem);
  });
}

/// The predicted time of that plan, infinite without one.
double pipeline_microseconds(const ConvProblem& problem) {
  if (problem.role == ConvRole::kFilter) {
    const PipelineWeightPlan* const plan = weight_plan(problem);
    if (plan != nullptr) return microseconds_of(pipeline_weight_clocks(*plan, problem.machine), false, problem);
  } else if (const PipelinePlan* const plan = result_plan(problem)) {
    return microseconds_of(pipeline_clocks(*plan, problem.machine), orders_filter(problem), problem);
  }
  return std::numeric_limits<double>::infinity();
}

bool run_result(const ConvProblem& problem) {
  const ConvGeometry &g = problem.geometry, padded = padded_geometry(problem);
  const bool transposed = problem.role == ConvRole::kImage;
  // The pipeline multiplies whole lines of 128 bytes. A picture's three channels, padded, took longer than copies of
  // both operands to the other order.
  const std::int64_t source_channels = transposed ? padded.feature_channels : padded.image_channels;
  if (is_planar(g) && source_channels * bytes_of(problem) < kLeastSourceBytes) return run_few(problem);
  const bool reads_filter = !orders_filter(problem) && is_aligned(problem.second);
  const PipelinePlan* const plan = result_plan(problem);
  if (plan == nullptr) return false;
  std::optional<FilterSpace> ordered;
  if (!reads_filter) {
    ordered.emplace(problem, "channels_last", 0, static_cast<std::size_t>(padded.filter_numel() * bytes_of(problem)));
    if (!ordered->is_filled()) {
      order_pipeline_filter(g, transposed, problem.filter_is_channels_last, bytes_of(problem), problem.second,
                            ordered->data(), problem.device);
      ordered->fill();
    }
  }
  const std::int64_t image_rows = g.image_numel() / g.image_channels,
                     feature_rows = g.feature_numel() / g.feature_channels;
  const std::int64_t results = transposed ? g.image_channels : g.feature_channels,
                     padded_results = transposed ? padded.image_channels : padded.feature_channels;
  const PaddedOperand source =
      transposed
          ? PaddedOperand(problem, problem.first, feature_rows, g.feature_channels, padded.feature_channels)
          : PaddedOperand(problem, problem.first, image_rows, given_image_channels(problem), padded.image_channels);
  const PaddedOperand bias(problem, problem.bias, 1, results, padded_results);
  const std::int64_t rows = transposed ? image_rows : feature_rows;
  std::optional<Workspace> result;
  if (padded_results != results) {
    result.emplace(static_cast<std::size_t>(rows * padded_results * bytes_of(problem)), problem.device);
  }
  run_pipeline(*plan, arithmetic_of(problem),
               {.source = source.data(),
                .filter = ordered ? ordered->data() : problem.second,
                .bias = bias.data(),
                .result = result ? result->data() : problem.out,
                .activation = problem.activation,
                .results_innermost = reads_filter && transposed},
               problem.device);
  if (result) crop_channels(rows, results, bytes_of(problem), result->data(), problem.out, problem.device);
  return true;
}

bool run_weight(const ConvProblem& problem) {
  // gather_channels writes neighbouring channels together.
  if (problem.filter_is_channels_last && !is_aligned(problem.out)) return false;
  const ConvGeometry &g = problem.geometry, padded = padded_geometry(problem);
  const PipelineWeightPlan* const plan = weight_plan(problem);
  if (plan == nullptr) return false;
  const PaddedOperand image(problem, problem.first, g.image_numel() / g.image_channels, given_image_channels(problem),
                            padded.image_channels);
  const PaddedOperand feature(problem, problem.second, g.feature_numel() / g.feature_channels, g.feature_channels,
                              padded.feature_channels);
  const Workspace sums(static_cast<std::size_t>(plan->sums_bytes()), problem.device);
  run_pipeline_weight(*plan, arithmetic_of(problem),
                      {.image = image.data(), .feature = feature.data(), .sums = static_cast<float*>(sums.data())},
                      problem.device);
  if (padded == g) {
    problem.filter_is_channels_last
        ? gather_channels(plan->gather, g.image_channels, problem.dtype, sums.data(), problem.out, problem.device)
        : gather_taps(plan->gather, problem.dtype, sums.data(), problem.out, problem.device);
    return true;
  }
  const Workspace filter(static_cast<std::size_t>(padded.filter_numel() * bytes_of(problem)), problem.device);
  gather_taps(plan->gather, problem.dtype, sums.data(), filter.data(), problem.device);
  const TensorOptions options{.dtype = problem.dtype, .device = Device(DeviceType::kCUDA, problem.device)};
  const Tensor whole =
      Tensor::from_blob(filter.data(), {padded.feature_channels, padded.image_channels, g.taps()}, options);
  Tensor out =
      problem.filter_is_channels_last
          ? Tensor::from_blob(problem.out, {g.feature_channels, g.taps(), g.image_channels}, options).transpose(1, 2)
          : Tensor::from_blob(problem.out, {g.feature_channels, g.image_channels, g.taps()}, options);
  copy_into(whole.narrow(0, 0, g.feature_channels).narrow(1, 0, g.image_channels), out);
  return true;
}

/// The same problem with the taps as channels of an unfolded image, of which each position is read by one of the
/// feature. The filter is the same matrix in both formats.
ConvProblem unfolded_problem(ConvProblem problem) {
  ConvGeometry& g = problem.geometry;
  g.image_channels *= g.taps();
  g.image = g.feature;
  g.kernel = g.stride = g.dilation = {};
  g.padding = {};
  problem.image_is_padded = true;
  problem.filter_is_channels_last = problem.role != ConvRole::kFilter;
  return problem;
}

/// Returns true if unfold_channels() supports the problem.
bool can_unfold(const ConvProblem& problem) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const ConvGeometry &g = problem.geometry, unfolded = padded_geometry(unfolded_problem(problem));
  if (g.image_channels * g.image_plane() > kMost ||
      g.batch * g.feature_plane() > kMostCopyBytes / (unfolded.image_channels * bytes_of(problem))) {
    return false;
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t reach = (g.feature[axis] - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis];
    if (std::max(g.padding[axis], reach) > kMost) return false;
  }
  return true;
}

struct Unfolding {};  // kept for problems that are faster unfolded

/// Returns true for a volume of few image channels if the pipeline takes less time for the unfolded image: it
/// multiplies whole lines of 128 bytes for each tap. A depth of one would leave a plane, for which other kernels
/// compete.
bool unfolds(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.role == ConvRole::kImage || g.feature.d == 1 ||
      g.image_channels * bytes_of(problem) >= kLeastSourceBytes || !can_unfold(problem)) {
    return false;
  }
  return keep_plan<Unfolding>(problem, [&](Unfolding&) {
           const ConvProblem unfolded = unfolded_problem(problem);
           const std::int64_t copied = g.image_numel() + padded_geometry(unfolded).image_numel();
           return copied_microseconds(static_cast<double>(copied), problem) + pipeline_microseconds(unfolded) <
                  pipeline_microseconds(problem);
         }) != nullptr;
}

bool run(const ConvProblem& problem) {
  return problem.role == ConvRole::kFilter ? run_weight(problem) : run_result(problem);
}

bool run_unfolded(const ConvProblem& problem) {
  ConvProblem unfolded = unfolded_problem(problem);
  const auto bytes = static_cast<std::size_t>(padded_geometry(unfolded).image_numel() * bytes_of(problem));
  const Workspace image(bytes, problem.device);
  unfold_channels(problem.geometry, !problem.filter_is_channels_last, bytes_of(problem), problem.first, image.data(),
                  problem.device);
  unfolded.first = image.data();
  return run(unfolded);
}

/// Returns true if plans of the problem may be kept, as those of planes always may.
bool fits_key(const ConvGeometry& g) {
  if (is_planar(g)) return true;
  const auto largest = [](const auto&... axes) { return std::max({std::max({axes.d, axes.h})...}); };
  return largest(g.image, g.feature, g.kernel, g.stride, g.padding, g.dilation) < kMostPlannedExtent;
}

}  // namespace

bool takes_volume(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || problem.geometry.groups != 1 || !runs_wgmma(problem.device) ||
      !fits_key(problem.geometry)) {
    return false;
  }
  const bool is_planned =
      problem.role == ConvRole::kFilter ? weight_plan(problem) != nullptr : result_plan(problem) != nullptr;
  return is_planned || unfolds(problem);
}

bool run_channels_last(const ConvProblem& problem) {
  const ConvGeometry &g = problem.geometry, padded = padded_geometry(problem);
  if (problem.dtype == kFloat64 || !runs_wgmma(problem.device) || !fits_key(g)) return false;
  if (g.groups != 1) return is_planar(g) && run_each_channel(problem);
  const bool is_weight = problem.role == ConvRole::kFilter, is_image_first = problem.role != ConvRole::kImage;
  const void* const image = is_image_first ? problem.first : problem.out;
  const void* const feature = !is_image_first ? problem.first : is_weight ? problem.second : problem.out;
  // Padded copies are aligned.
  if (padded.image_channels == g.image_channels && !is_aligned(image)) return false;
  if (padded.feature_channels == g.feature_channels && !is_aligned(feature)) return false;
  return unfolds(problem) ? run_unfolded(problem) : run(problem);
}

}  // namespace adjoint::cuda
