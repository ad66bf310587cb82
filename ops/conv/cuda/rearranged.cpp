#include <adjoint/ops/conv/cuda/rearranged.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/correlation_plan.h>
#include <adjoint/ops/conv/cuda/kept_plans.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;  // of a copy

const RearrangedPlan* find_plan(const ConvProblem& problem) {
  return keep_plan<RearrangedPlan>(problem, [&](RearrangedPlan& plan) {
    const std::int64_t size = element_size(problem.dtype);
    if (!plan_strides_as_channels(problem.geometry, problem.role == ConvRole::kImage, size, plan) &&
        !plan_batch_as_rows(problem.geometry, size, plan))
      return false;
    for (const Unshuffle* copy : {&plan.image, &plan.feature, &plan.filter}) {
      if (copy->numel() * size > kMostBytes) return false;
    }
    return true;
  });
}

/// The problem that is left. Its operands are still the caller's.
ConvProblem inner_problem(const RearrangedPlan& plan, const ConvProblem& problem) {
  ConvProblem inner = problem;
  inner.geometry = simplified(plan.geometry, problem.role == ConvRole::kImage && problem.bias != nullptr);
  return inner;
}

/// How each of a role's tensors is moved.
struct Moves {
  const Unshuffle &first, &second, &out;
};

Moves moves_of(const RearrangedPlan& plan, ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return {plan.image, plan.filter, plan.feature};
    case ConvRole::kImage: return {plan.feature, plan.filter, plan.image};
    case ConvRole::kFilter: break;
  }
  return {plan.image, plan.feature, plan.filter};
}

/// Bytes of copies. 0 for those that are not made.
struct CopyBytes {
  std::size_t first, second, out, linear, bias;
};

CopyBytes copy_bytes(const RearrangedPlan& plan, const ConvProblem& problem) {
  const std::int64_t size = element_size(problem.dtype);
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements * size); };
  const Moves moves = moves_of(plan, problem.role);
  const bool repeats = problem.role == ConvRole::kImage && problem.bias != nullptr && plan.bias_repetitions > 1;
  return {bytes(moves.first.numel()), bytes(moves.second.numel()), bytes(moves.out.numel()),
          problem.linear == nullptr ? 0 : bytes(moves.out.numel()), repeats ? bytes(plan.geometry.image_channels) : 0};
}

/// Asked first of all kernels, in every call: what has no other order is not looked up.
bool takes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (problem.dtype == kFloat64 || (g.stride == Extent2{1, 1} && g.feature_plane() != 1)) return false;
  return find_plan(problem) != nullptr;
}

/// Whether channels before samples are worth the copies: in large products.
bool rows_pay(const ConvProblem& problem) {
  const bool wide =
      problem.role == ConvRole::kFeature || (problem.role == ConvRole::kFilter && element_size(problem.dtype) == 2);
  return problem.geometry.batch * problem.geometry.filter_numel() >= std::int64_t{1} << (wide ? 27 : 28);
}

/// Measured (bench/lab/LOG.md): two more passes over the image pay where no tensor-core kernel takes so many taps or
/// rows of phases, and where it has few channels, whose units of sums a stride fills.
bool strides_pay(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t phases = g.stride[0] * g.stride[1], channels = g.image_channels_per_group();
  if (phases < 16) return false;
  // Of few channels a group, which other cores do at once, large ones alone are worth the launches.
  if (g.groups > 1 && g.image_numel() < std::int64_t{1} << 22) return false;
  if (g.taps() > kMaxSteps || g.stride[0] > kMaxClasses) return true;
  if (channels >= 32) return false;
  const bool planes = g.stride[0] > 1, half = element_size(problem.dtype) == 2;
  switch (problem.role) {
    case ConvRole::kFeature: return phases >= 64 || g.taps() >= 100 || (planes && half && channels <= 16);
    case ConvRole::kImage: return planes && phases >= 128;
    case ConvRole::kFilter: break;
  }
  return g.taps() >= 256 && channels % 16 != 0;
}

bool pays(const ConvProblem& problem) {
  return problem.geometry.stride == Extent2{1, 1} ? rows_pay(problem) : strides_pay(problem);
}

void run(const ConvProblem& problem) {
  const RearrangedPlan& plan = *find_plan(problem);
  const Moves moves = moves_of(plan, problem.role);
  const CopyBytes bytes = copy_bytes(plan, problem);
  const std::int64_t size = element_size(problem.dtype);
  const int device = problem.device;
  const Workspace first(bytes.first, device), second(bytes.second, device), out(bytes.out, device),
      linear(bytes.linear, device), bias(bytes.bias, device);
  ConvProblem inner = inner_problem(plan, problem);
  if (bytes.first != 0) {
    unshuffle(moves.first, size, problem.first, first.data(), device);
    inner.first = first.data();
  }
  if (bytes.second != 0) {
    unshuffle(moves.second, size, problem.second, second.data(), device);
    inner.second = second.data();
  }
  if (bytes.bias != 0) {
    repeat(problem.geometry.image_channels, plan.bias_repetitions, size, problem.bias, bias.data(), device);
    inner.bias = bias.data();
  }
  if (bytes.out != 0) {
    inner.out = out.data();
    inner.read_again = true;
  }
  if (bytes.linear != 0) inner.linear = linear.data();
  best_conv_kernel(inner).run(inner);  // all of conv and conv_transpose activate
  if (bytes.out != 0) shuffle(moves.out, size, out.data(), problem.out, device);
  if (bytes.linear != 0) shuffle(moves.out, size, linear.data(), problem.linear, device);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const RearrangedPlan& plan = *find_plan(problem);
  const CopyBytes bytes = copy_bytes(plan, problem);
  const ConvProblem inner = inner_problem(plan, problem);
  const ConvKernel& kernel = best_conv_kernel(inner);
  return bytes.first + bytes.second + bytes.out + bytes.linear + bytes.bias +
         (kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(inner));
}

}  // namespace

const ConvKernel rearranged_conv{.name = "rearranged_conv",
                                 .takes = takes,
                                 .run = run,
                                 .activates = true,
                                 .workspace_bytes = workspace_bytes,
                                 .pays = pays};
const ConvKernel rearranged_conv_transpose{.name = "rearranged_conv_transpose",
                                           .takes = takes,
                                           .run = run,
                                           .activates = true,
                                           .workspace_bytes = workspace_bytes,
                                           .pays = pays};
const ConvKernel rearranged_conv_weight{
    .name = "rearranged_conv_weight", .takes = takes, .run = run, .workspace_bytes = workspace_bytes, .pays = pays};

}  // namespace adjoint::cuda
