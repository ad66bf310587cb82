// Plans and calls the kernel for products of matrices. Each arithmetic is one translation unit.
#include <adjoint/ops/conv/product/cuda/product.h>

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/gpu.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/layouts/cuda/aligned_lines.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>

#include <cstddef>
#include <optional>

namespace adjoint::cuda {
namespace {

ProductOf product_of(ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return ProductOf::kFeature;
    case ConvRole::kImage: return ProductOf::kImage;
    case ConvRole::kFilter: break;
  }
  return ProductOf::kFilter;
}

}  // namespace

const ProductPlan* find_product_plan(const ConvProblem& problem) {
  return keep_plan<ProductPlan>(problem, [&](ProductPlan& plan) {
    return plan_product(problem.geometry, product_of(problem.role), arithmetic_of(problem), problem.machine, plan);
  });
}

namespace {

bool takes(const ConvProblem& problem) {
  if (problem.dtype == kFloat64 || !is_pointwise(problem.geometry) || !runs_wgmma(problem.device)) return false;
  return arithmetic_of(problem) != Arithmetic::kFloat32 && find_product_plan(problem) != nullptr;
}

/// A factor for the copy engine: the tensor at `data`, or a copy if the copy engine cannot read that.
class Factor {
 public:
  Factor(const ProductMatrix& matrix, std::int64_t element_bytes, const void* data, int device) : data_(data) {
    if (product_is_aligned(matrix, element_bytes, data)) return;
    copy_.emplace(static_cast<std::size_t>(matrix.lines * matrix.pitch * element_bytes), device);
    copy_aligned({matrix.lines, matrix.width, matrix.pitch, matrix.extents[1], matrix.extents[2], matrix.source_line,
                  matrix.source_group},
                 element_bytes, data, copy_->data(), device);
    data_ = copy_->data();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::optional<Workspace> copy_;
};

void run(const ConvProblem& problem) {
  const ProductPlan& plan = *find_product_plan(problem);
  const auto factor = [&](const ProductMatrix& matrix, bool first) {
    return Factor(matrix, plan.element_bytes, first ? problem.first : problem.second, problem.device);
  };
  const Factor rows = factor(plan.rows, plan.rows_are_samples), columns = factor(plan.columns, !plan.rows_are_samples);
  std::optional<Workspace> partial;
  if (plan.slices > 1) partial.emplace(static_cast<std::size_t>(plan.partial_bytes()), problem.device);
  auto* const sums = partial ? static_cast<float*>(partial->data()) : nullptr;
  run_product(plan, problem, rows.data(), columns.data(), sums);
  if (partial) add_slices(problem, sums, plan.slices);
}

std::size_t workspace_bytes(const ConvProblem& problem) {
  const ProductPlan& plan = *find_product_plan(problem);
  return static_cast<std::size_t>(product_copy_bytes(plan) + plan.partial_bytes());
}

}  // namespace

void run_product(const ProductPlan& plan, const ConvProblem& problem, const void* rows, const void* columns,
                 float* partial) {
  const auto run_in = arithmetic_of(problem) == Arithmetic::kBFloat16  ? run_product_in<Arithmetic::kBFloat16>
                      : arithmetic_of(problem) == Arithmetic::kFloat16 ? run_product_in<Arithmetic::kFloat16>
                                                                       : run_product_in<Arithmetic::kTF32>;
  run_in(plan, problem, rows, columns, partial);
}

const ConvKernel product_conv{.name = "product_conv",
                              .supports = takes,
                              .run = run,
                              .workspace_bytes = workspace_bytes};
const ConvKernel product_conv_transpose{.name = "product_conv_transpose",
                                        .supports = takes,
                                        .run = run,
                                        .workspace_bytes = workspace_bytes};
const ConvKernel product_conv_weight{.name = "product_conv_weight",
                                     .supports = takes,
                                     .run = run,
                                     .workspace_bytes = workspace_bytes};

}  // namespace adjoint::cuda
