#include <adjoint/ops/conv/product/cuda/tapwise.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/layouts/cuda/rearrange.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>

#include <cstddef>
#include <cstdint>

namespace adjoint::cuda {

const TapwisePlan* find_tapwise_plan(const ConvProblem& problem) {
  return keep_plan<TapwisePlan>(problem, [&](TapwisePlan& plan) {
    return plan_tapwise(problem.geometry, arithmetic_of(problem), problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || problem.geometry.groups != 1 || !runs_wgmma(problem.device)) return false;
  return arithmetic_of(problem) != Arithmetic::kFloat32 && find_tapwise_plan(problem) != nullptr;
}

void run(const ConvProblem& problem) {
  const TapwisePlan& plan = *find_tapwise_plan(problem);
  const ProductPlan& product = plan.product;
  const auto workspace = [&](std::int64_t bytes) { return Workspace(static_cast<std::size_t>(bytes), problem.device); };
  const Workspace image = workspace(plan.copy_bytes(plan.image)), feature = workspace(plan.copy_bytes(plan.feature)),
                  results = workspace(plan.result_bytes());
  put_samples_last(plan.image, product.element_bytes, problem.first, image.data(), problem.device);
  put_samples_last(plan.feature, product.element_bytes, problem.second, feature.data(), problem.device);
  ConvProblem products = problem;
  products.out = results.data();
  products.read_again = true;
  auto* const sums = product.slices > 1 ? static_cast<float*>(results.data()) : nullptr;
  run_product(product, products, feature.data(), image.data(), sums);
  gather_taps(plan.gather, problem.dtype, results.data(), problem.out, problem.device);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const TapwisePlan& plan = *find_tapwise_plan(problem);
  return static_cast<std::size_t>(plan.copy_bytes(plan.image) + plan.copy_bytes(plan.feature) + plan.result_bytes());
}

}  // namespace

const ConvKernel tapwise_conv_weight{.name = "tapwise_conv_weight",
                                     .supports = takes,
                                     .run = run,
                                     .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda
