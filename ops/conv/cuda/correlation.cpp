#include <adjoint/ops/conv/cuda/correlation.h>

#include <adjoint/core/cuda/runtime.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace adjoint::cuda {
namespace {

constexpr std::size_t kPlansKept = 128;  // a thread
// Channels are padded to the tile; where that leaves less than this share of the products, the plain kernels are
// faster.
constexpr double kLeastUse = 1.0 / 32;

Arithmetic arithmetic_of(const ConvProblem& problem) {
  switch (problem.dtype) {
    case kBFloat16: return Arithmetic::kBFloat16;
    case kFloat16: return Arithmetic::kFloat16;
    default: return problem.precision == Precision::kTF32 ? Arithmetic::kTF32 : Arithmetic::kFloat32;
  }
}

struct KeptPlan {
  ConvGeometry geometry;
  bool transposed;
  Arithmetic arithmetic;
  std::unique_ptr<CorrelationPlan> plan;  // null where there is none
};

/// Planning takes longer than launching, and a training loop asks for the same few plans.
const CorrelationPlan* find_plan(const ConvProblem& problem) {
  thread_local std::vector<KeptPlan> kept;
  thread_local std::size_t oldest = 0;
  const bool transposed = problem.role == ConvRole::kImage;
  const Arithmetic arithmetic = arithmetic_of(problem);
  for (const KeptPlan& k : kept) {
    if (k.transposed == transposed && k.arithmetic == arithmetic && k.geometry == problem.geometry) return k.plan.get();
  }
  auto plan = std::make_unique<CorrelationPlan>();
  const bool half = arithmetic == Arithmetic::kBFloat16 || arithmetic == Arithmetic::kFloat16;
  if (!plan_correlation(problem.geometry, transposed, half ? 2 : 1, arithmetic == Arithmetic::kFloat32, {}, *plan))
    plan.reset();
  KeptPlan entry{problem.geometry, transposed, arithmetic, std::move(plan)};
  if (kept.size() < kPlansKept) {
    kept.push_back(std::move(entry));
    return kept.back().plan.get();
  }
  KeptPlan& slot = kept[oldest];
  oldest = (oldest + 1) % kPlansKept;
  slot = std::move(entry);
  return slot.plan.get();
}

bool is_sm90(int device) {
  int major = 0, minor = 0;
  ADJOINT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ADJOINT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}

double use_of_tile(const CorrelationPlan& plan) {
  const double k = static_cast<double>(plan.chunks) * kChunkUnits * plan.unit_channels;
  const double n = static_cast<double>(plan.tiles_per_class) * plan.tile_columns;
  return plan.k_channels / k * plan.class_columns / n;
}

bool takes(const ConvProblem& problem) {
  if (problem.dtype != kFloat32 && !(problem.dtype == kBFloat16 || problem.dtype == kFloat16)) return false;
  if (!is_sm90(problem.device)) return false;
  const CorrelationPlan* plan = find_plan(problem);
  return plan != nullptr && use_of_tile(*plan) >= kLeastUse;
}

bool rows_aligned(const void* pointer, std::int64_t row_bytes, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0 && row_bytes % bytes == 0;
}

void run(const ConvProblem& problem) {
  const CorrelationPlan& plan = *find_plan(problem);
  const std::int64_t size = element_size(problem.dtype);
  CorrelationOperands operands{problem.first, nullptr, problem.bias, problem.out, 1, 1};
  if (plan.in_stride_w == 1) {
    // A row is read in vectors of 16 bytes, of two elements, or one by one.
    for (const std::int64_t elements : {16 / size, std::int64_t{2}}) {
      if (operands.load_vector == 1 && rows_aligned(problem.first, plan.in_w * size, elements * size)) {
        operands.load_vector = static_cast<std::int32_t>(elements);
      }
    }
  }
  if (plan.out_stride_w == 1 && rows_aligned(problem.out, plan.out_w * size, 16)) {
    operands.store_vector = static_cast<std::int32_t>(16 / size);
  }
  switch (arithmetic_of(problem)) {
    case Arithmetic::kTF32: return run_correlation<Arithmetic::kTF32>(plan, operands, problem.second, problem.device);
    case Arithmetic::kFloat32:
      return run_correlation<Arithmetic::kFloat32>(plan, operands, problem.second, problem.device);
    case Arithmetic::kBFloat16:
      return run_correlation<Arithmetic::kBFloat16>(plan, operands, problem.second, problem.device);
    case Arithmetic::kFloat16:
      return run_correlation<Arithmetic::kFloat16>(plan, operands, problem.second, problem.device);
  }
}

}  // namespace

const ConvKernel correlation_conv{"correlation_conv", takes, run};
const ConvKernel correlation_conv_transpose{"correlation_conv_transpose", takes, run};

}  // namespace adjoint::cuda
