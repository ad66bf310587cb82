#include <adjoint/ops/conv/rearranged/cuda/rearranged.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/filter_space.h>
#include <adjoint/ops/conv/layouts/cuda/rearrange.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {
namespace {

/// The rearrangement of each of a role's tensors.
struct Moves {
  const Unshuffle &first, &second, &out;
};

Moves moves_of(const Rearrangement& how, ConvRole role) {
  static const Unshuffle none;
  const RearrangedPlan& plan = how.plan;
  switch (role) {
    case ConvRole::kFeature: return {plan.image, plan.filter, plan.feature};
    case ConvRole::kImage: return {plan.feature, plan.filter, plan.image};
    case ConvRole::kFilter: break;
  }
  return {plan.image, plan.feature, how.filter_is_put_in_order ? plan.filter : none};
}

/// Bytes of copies; 0 for those that are not made.
struct CopyBytes {
  std::size_t first, second, out, linear, bias;
  std::size_t sum() const { return first + second + out + linear + bias; }
};

CopyBytes copy_bytes(const Rearrangement& how, const ConvProblem& problem) {
  const RearrangedPlan& plan = how.plan;
  const std::int64_t size = element_size(problem.dtype);
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements * size); };
  const Moves moves = moves_of(how, problem.role);
  const bool repeats = problem.role == ConvRole::kImage && problem.bias != nullptr && plan.bias_repetitions > 1;
  const std::size_t out = bytes(moves.out.numel());
  CopyBytes sizes{bytes(moves.first.numel()), bytes(moves.second.numel()), out, problem.linear == nullptr ? 0 : out,
                  repeats ? bytes(plan.geometry.image_channels) : 0};
  if (plan.image_samples.samples != 0) {
    sizes.first = bytes(plan.image_samples.numel());
    sizes.second = bytes(plan.feature_samples.numel());
  }
  return sizes;
}

/// Copies `from` to `to`, then points `from` at the copy.
void bring(const Unshuffle& how, std::int64_t element_size, void* to, int device, const void*& from) {
  if (how.planes == 0) return;
  unshuffle(how, element_size, from, to, device);
  from = to;
}
void bring(const SamplesLast& how, std::int64_t element_size, void* to, int device, const void*& from) {
  if (how.samples == 0) return;
  put_samples_last(how, element_size, from, to, device);
  from = to;
}

}  // namespace

ConvProblem inner_problem(const RearrangedPlan& plan, const ConvProblem& problem) {
  ConvProblem inner = problem;
  inner.geometry = simplified(plan.geometry, problem.role == ConvRole::kImage && problem.bias != nullptr);
  return inner;
}

std::size_t rearranged_bytes(const Rearrangement& how, const ConvProblem& problem) {
  return copy_bytes(how, problem).sum();
}

void run_rearranged(const Rearrangement& how, const ConvProblem& problem,
                    void (*run_inner)(const ConvProblem& inner, const RearrangedPlan& plan)) {
  const RearrangedPlan& plan = how.plan;
  const Moves moves = moves_of(how, problem.role);
  const CopyBytes bytes = copy_bytes(how, problem);
  const std::int64_t size = element_size(problem.dtype);
  const int device = problem.device;
  const Workspace first(bytes.first, device), out(bytes.out, device), linear(bytes.linear, device),
      bias(bytes.bias, device);
  FilterSpace second(problem, "rearranged", 0, bytes.second);
  ConvProblem inner = inner_problem(plan, problem);
  bring(moves.first, size, first.data(), device, inner.first);
  bring(plan.image_samples, size, first.data(), device, inner.first);
  if (bytes.second != 0) {
    if (!second.is_filled()) {
      bring(moves.second, size, second.data(), device, inner.second);
      bring(plan.feature_samples, size, second.data(), device, inner.second);
      second.fill();
    }
    inner.second = second.data();
    if (!second.is_kept()) inner.forms = nullptr;  // this address will soon hold another filter
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
  run_inner(inner, plan);
  if (bytes.out != 0) shuffle(moves.out, size, out.data(), problem.out, device);
  if (bytes.linear != 0) shuffle(moves.out, size, linear.data(), problem.linear, device);
}

}  // namespace adjoint::cuda
