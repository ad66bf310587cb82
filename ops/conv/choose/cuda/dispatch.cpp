#include <adjoint/ops/conv/choose/cuda/dispatch.h>

#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/choose/cuda/calibration.h>
#include <adjoint/ops/conv/choose/cuda/channels_last.h>
#include <adjoint/ops/conv/choose/cuda/rearranged.h>
#include <adjoint/ops/conv/choose/cuda/terms.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/mma/mma.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/few_results/cuda/few_results.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>
#include <adjoint/ops/conv/plain/cuda/plain.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/cuda/tapwise.h>
#include <adjoint/ops/conv/short_sums/cuda/short_sums.h>
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string_view>

namespace adjoint::cuda {
namespace {

struct Candidate {
  const ConvKernel* kernel;
  Terms (*terms)(const ConvProblem& problem);  // for a problem that the kernel supports
  // True if it is planned only for GPUs without wgmma: on others it was not the fastest in any measured problem.
  bool is_older = false;
  // For a kernel that chooses another: a lower bound of the terms, before the inner kernels are planned; or null.
  Terms (*least_terms)(const ConvProblem& problem) = nullptr;

  constexpr bool rearranges() const { return least_terms != nullptr; }
};

template <Order kOrder>
constexpr Candidate in_order(const ConvKernel& kernel) {
  return {&kernel, rearranged_terms<kOrder>, false, rearranged_least_terms<kOrder>};
}

// Kernels with faster planning come first: a kernel's least time is known without its plan, and kernels that cannot be
// the fastest are not planned. The last one supports every problem.
constexpr Candidate kConv[] = {{&few_results_conv, few_results_terms}, {&short_sums_conv, short_sums_terms},
                               {&channelwise_conv, channelwise_terms}, {&product_conv, product_terms},
                               {&correlation_conv, correlation_terms}, {&blocked_conv, blocked_terms},
                               {&sliced_conv, sliced_terms},           {&packed_conv, packed_terms},
                               {&narrow_conv, narrow_terms},           {&col2im_conv, col2im_terms},
                               {&mma_conv, mma_terms, true},           in_order<Order::kUnshuffled>(unshuffled_conv),
                               in_order<Order::kPadded>(padded_conv),  {&plain_conv, plain_terms}};
constexpr Candidate kConvTranspose[] = {{&few_results_conv_transpose, few_results_terms},
                                        {&short_sums_conv_transpose, short_sums_terms},
                                        {&channelwise_conv_transpose, channelwise_terms},
                                        {&product_conv_transpose, product_terms},
                                        {&correlation_conv_transpose, correlation_terms},
                                        {&blocked_conv_transpose, blocked_terms},
                                        {&sliced_conv_transpose, sliced_terms},
                                        {&packed_conv_transpose, packed_terms},
                                        {&narrow_conv_transpose, narrow_terms},
                                        {&col2im_conv_transpose, col2im_terms},
                                        {&mma_conv_transpose, mma_terms, true},
                                        in_order<Order::kUnshuffled>(unshuffled_conv_transpose),
                                        {&plain_conv_transpose, plain_terms}};
constexpr Candidate kConvWeight[] = {{&few_results_conv_weight, few_weight_terms},
                                     {&channelwise_conv_weight, channelwise_weight_terms},
                                     {&product_conv_weight, product_terms},
                                     {&boxes_conv_weight, boxes_terms},
                                     {&wgmma_conv_weight, wgmma_weight_terms},
                                     {&blocked_conv_weight, blocked_weight_terms},
                                     {&tapwise_conv_weight, tapwise_terms},
                                     {&tensor_core_conv_weight, tensor_core_weight_terms, true},
                                     in_order<Order::kPaddedBoxes>(padded_boxes_conv_weight),
                                     in_order<Order::kUnshuffledBoxes>(unshuffled_boxes_conv_weight),
                                     in_order<Order::kBatchColumnsBoxes>(batch_columns_boxes_conv_weight),
                                     in_order<Order::kUnshuffled>(unshuffled_conv_weight),
                                     {&plain_conv_weight, plain_weight_terms}};

template <std::size_t kCount>
constexpr std::array<const ConvKernel*, kCount> kernels_of(const Candidate (&candidates)[kCount]) {
  std::array<const ConvKernel*, kCount> kernels{};
  for (std::size_t i = 0; i < kCount; ++i) kernels[i] = candidates[i].kernel;
  return kernels;
}

std::span<const Candidate> candidates_of(ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return kConv;
    case ConvRole::kImage: return kConvTranspose;
    case ConvRole::kFilter: break;
  }
  return kConvWeight;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The estimate, if it is less than `best`.
double estimate(const Candidate& candidate, const ConvProblem& problem, double best) {
  const Calibration* calibration = find_calibration(candidate.kernel->name, problem);
  if (calibration == nullptr) return kNever;
  const auto& c = calibration->coefficients;
  if (std::max(calibration->least, c[0] + c[1] * memory_microseconds(problem)) >= best) return kNever;
  if (!candidate.kernel->takes(problem)) return kNever;
  const auto sum = [&](const Terms& terms) {
    const std::span<const double> all = terms.all();
    return all.empty() ? kNever : std::inner_product(all.begin(), all.end(), c.begin(), 0.0);
  };
  if (candidate.least_terms != nullptr && sum(candidate.least_terms(problem)) >= best) return kNever;
  return sum(candidate.terms(problem));
}

/// The fastest kernel, and its time.
struct Quickest {
  const ConvKernel* kernel;
  double microseconds;
};

/// Replaces `best` if the candidate's estimate is less.
void consider(const Candidate& candidate, const ConvProblem& problem, Quickest& best) {
  if (candidate.is_older && runs_wgmma(problem.device)) return;
  const double microseconds = estimate(candidate, problem, best.microseconds);
  if (microseconds < best.microseconds) best = {candidate.kernel, microseconds};
}

/// Among the kernels that compute the problem without reordering operands.
const Quickest& quickest_in_place(const ConvProblem& problem) {
  struct InPlace {
    Quickest best;
  };
  return keep_plan<InPlace>(problem,
                            [&](InPlace& in_place) {
                              const ComparePlans comparing;
                              const std::span<const Candidate> candidates = candidates_of(problem.role);
                              const Candidate& plain = candidates.back();
                              in_place.best = {plain.kernel, kNever};
                              consider(plain, problem, in_place.best);
                              for (const Candidate& candidate : candidates.first(candidates.size() - 1)) {
                                if (!candidate.rearranges()) consider(candidate, problem, in_place.best);
                              }
                              return true;
                            })
      ->best;
}

const Quickest& quickest(const ConvProblem& problem) {
  return *keep_plan<Quickest>(problem, [&](Quickest& best) {
    const ComparePlans comparing;
    best = quickest_in_place(problem);
    for (const Candidate& candidate : candidates_of(problem.role)) {
      if (candidate.rearranges()) consider(candidate, problem, best);
    }
    return true;
  });
}

// outs: the result, and the tensor for sum and bias without activation, if any.
ConvProblem problem_of(ConvRole role, std::span<const Tensor> in, std::span<Tensor> outs, const ConvAttr& attr) {
  Tensor& out = outs[0];
  Tensor* const linear = outs.size() > 1 && outs[1].defined() ? &outs[1] : nullptr;
  const bool has_bias = in.size() > 2 && in[2].defined();
  return {.role = role,
          .geometry = attr.geometry,
          .dtype = out.dtype(),
          .precision = float32_precision(),
          .device = out.device().index,
          .first = in[0].raw_data(),
          .second = in[1].raw_data(),
          .bias = has_bias ? in[2].raw_data() : nullptr,
          .out = out.raw_mutable_data(),
          .activation = attr.activation,
          .linear = linear == nullptr ? nullptr : linear->raw_mutable_data(),
          .forms = role == ConvRole::kFilter ? nullptr : in[1].impl()->storage->forms()};
}

// Computes a contiguous volume through channels_last, if a kernel of that format supports it: the plain kernels, the
// only ones that read it in place, have no tensor cores. Returns false, and does nothing, otherwise.
bool run_volume(ConvRole role, std::span<const Tensor> in, std::span<Tensor> outs, const ConvAttr& attr) {
  const bool has_linear = outs.size() > 1 && outs[1].defined();
  if (has_linear || in[0].numel() == 0 || outs[0].numel() == 0 || !takes_volume(problem_of(role, in, outs, attr))) {
    return false;
  }
  const Tensor first = contiguous_copy(in[0], kChannelsLast);
  if (role == ConvRole::kFilter) {
    const std::array operands{first, contiguous_copy(in[1], kChannelsLast)};
    return conv_weight_channels_last(operands, outs[0], attr.geometry);
  }
  const std::array operands{first, in[1], in.size() > 2 ? in[2] : Tensor{}};
  Tensor out = make_tensor({outs[0].shape(), outs[0].dtype(), {}, kChannelsLast}, outs[0].device());
  if (!conv_channels_last(operands, out, attr, role == ConvRole::kImage)) return false;
  copy_into(out, outs[0]);
  return true;
}

void run(ConvRole role, std::span<const Tensor> in, std::span<Tensor> outs, const ConvAttr& attr) {
  if (!is_planar(attr.geometry) && run_volume(role, in, outs, attr)) return;
  ConvProblem problem = problem_of(role, in, outs, attr);
  problem.geometry = simplified(attr.geometry, role == ConvRole::kImage && problem.bias != nullptr);
  best_conv_kernel(problem).run(problem);
}

}  // namespace

std::span<const ConvKernel* const> conv_kernels(ConvRole role) {
  static constexpr auto conv = kernels_of(kConv);
  static constexpr auto conv_transpose = kernels_of(kConvTranspose);
  static constexpr auto conv_weight = kernels_of(kConvWeight);
  switch (role) {
    case ConvRole::kFeature: return conv;
    case ConvRole::kImage: return conv_transpose;
    case ConvRole::kFilter: break;
  }
  return conv_weight;
}

const ConvKernel& best_conv_kernel(const ConvProblem& problem) {
  // Nothing is kept for float64 and volumes, because a plan's key does not include them. Only the plain kernels support
  // them.
  if (problem.dtype == kFloat64 || !is_planar(problem.geometry)) return *conv_kernels(problem.role).back();
  return *quickest(problem).kernel;
}

const ConvKernel& best_conv_kernel_in_place(const ConvProblem& problem) { return *quickest_in_place(problem).kernel; }

double best_conv_microseconds_in_place(const ConvProblem& problem) { return quickest_in_place(problem).microseconds; }

double conv_kernel_microseconds(const ConvKernel& kernel, const ConvProblem& problem) {
  for (const Candidate& candidate : candidates_of(problem.role)) {
    if (candidate.kernel == &kernel) return estimate(candidate, problem, kNever);
  }
  return kNever;
}

std::span<const double> conv_kernel_terms(const ConvKernel& kernel, const ConvProblem& problem, Terms& terms) {
  terms = {};
  for (const Candidate& candidate : candidates_of(problem.role)) {
    if (candidate.kernel == &kernel && kernel.takes(problem)) terms = candidate.terms(problem);
  }
  return terms.all();
}

bool rearranges(const ConvKernel& kernel) {
  return std::ranges::any_of(kConvRoles, [&](ConvRole role) {
    return std::ranges::any_of(candidates_of(role),
                               [&](const Candidate& each) { return each.kernel == &kernel && each.rearranges(); });
  });
}

const ConvKernel* find_conv_kernel(ConvRole role, std::string_view name) {
  for (const ConvKernel* kernel : conv_kernels(role)) {
    if (std::string_view(kernel->name).starts_with(name)) return kernel;
  }
  return nullptr;
}

void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run(ConvRole::kFeature, in, out, attr);
}

void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run(ConvRole::kImage, in, out, attr);
}

bool conv_channels_last(std::span<const Tensor> in, Tensor& out, const ConvAttr& attr, bool transposed) {
  ConvProblem problem = problem_of(transposed ? ConvRole::kImage : ConvRole::kFeature, in, {&out, 1}, attr);
  problem.filter_is_channels_last = in[1].is_contiguous(kChannelsLast);
  return run_channels_last(problem);
}

bool conv_weight_channels_last(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry) {
  ConvProblem problem = problem_of(ConvRole::kFilter, in, {&out, 1}, {geometry});
  problem.filter_is_channels_last = !out.is_contiguous() && out.is_contiguous(kChannelsLast);
  return run_channels_last(problem);
}

void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry) {
  run(ConvRole::kFilter, in, {&out, 1}, {geometry});
}

}  // namespace adjoint::cuda
