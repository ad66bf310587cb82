#include <adjoint/tests/support/conv_cuda.h>

#ifdef ADJOINT_WITH_CUDA
#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/weight/boxes_plan.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/tests/support/values.h>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <utility>

namespace adjoint::testing {
namespace {

constexpr std::int64_t kMostElements = 1 << 20;  // of any operand of a random case
constexpr std::int64_t kMostProducts = 3'000'000;

using Random = std::mt19937_64;

std::int64_t upto(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Small values as often as large ones.
std::int64_t spread(Random& random, std::int64_t high) {
  const double exponent = static_cast<double>(random() >> 11) * 0x1p-53 * std::log(static_cast<double>(high) + 1.0);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::exp(exponent)), 1, high);
}

ConvCase any_case(Random& random) {
  ConvCase c;
  c.rank = static_cast<int>(upto(random, 1, 2));
  c.batch = upto(random, 0, 3) == 0 ? spread(random, 40) : upto(random, 1, 3);
  const std::int64_t kind = upto(random, 0, 9);
  if (kind < 6)
    c.groups = 1;
  else if (kind < 8)
    c.groups = upto(random, 2, 5);
  else
    c.groups = spread(random, 64);
  const std::int64_t most = kind == 9 ? 2 : 300;  // depthwise, or nearly
  c.in_channels = c.groups * spread(random, most);
  c.out_channels = c.groups * spread(random, most);
  for (std::size_t axis = c.rank == 1 ? 1 : 0; axis < 2; ++axis) {
    c.input.in_plane(axis) = spread(random, c.rank == 1 ? 3000 : axis == 0 ? 40 : 300);
    c.kernel.in_plane(axis) = upto(random, 0, 2) == 0 ? upto(random, 1, 11) : upto(random, 1, 5);
    c.stride.in_plane(axis) = upto(random, 0, 1) == 0 ? upto(random, 1, 2) : spread(random, 9);
    c.dilation.in_plane(axis) = upto(random, 0, 2) == 0 ? spread(random, 9) : 1;
    c.padding.in_plane(axis) =
        upto(random, 0, 1) == 0 ? 0 : upto(random, 0, c.dilation.in_plane(axis) * (c.kernel.in_plane(axis) - 1) + 2);
    c.output_padding.in_plane(axis) =
        upto(random, 0, 2) == 0 ? upto(random, 0, std::max(c.stride.in_plane(axis), c.dilation.in_plane(axis)) - 1) : 0;
  }
  return c;
}

// At least `least` elements of memory that operands of many problems share: filling it for each would be slower than
// the problems.
const Tensor& pool(DType dtype, std::int64_t magnitude, std::int64_t least) {
  static auto* pools = new std::map<std::pair<DType, std::int64_t>, Tensor>;
  Tensor& tensor = (*pools)[{dtype, magnitude}];
  if (!tensor.defined() || tensor.numel() < least) {
    const std::int64_t count = 2 * std::max(kMostElements, least);
    const auto values = magnitude == 0 ? reals(count, 1) : integers(count, magnitude, 1);
    tensor = Tensor::from_vector<double>(values, {count}, {.dtype = dtype}).to(kCUDA);
  }
  return tensor;
}

Tensor from_pool(DType dtype, std::int64_t magnitude, std::int64_t count, Random& random) {
  const Tensor& all = pool(dtype, magnitude, count);
  return all.narrow(0, upto(random, 0, all.numel() - count), count);
}

ConvOperands operands(cuda::ConvRole role, const ConvGeometry& g, DType dtype, const std::int64_t (&magnitudes)[3],
                      std::uint64_t seed) {
  Random random(seed);
  const ConvSizes sizes = conv_sizes(role, g);
  ConvOperands result{from_pool(dtype, magnitudes[0], sizes.first, random),
                      from_pool(dtype, magnitudes[1], sizes.second, random),
                      {}};
  if (sizes.bias > 0 && seed % 2 == 0) result.bias = from_pool(dtype, magnitudes[2], sizes.bias, random);
  return result;
}

}  // namespace

ConvSizes conv_sizes(cuda::ConvRole role, const ConvGeometry& g) {
  switch (role) {
    case cuda::ConvRole::kFeature: return {g.image_numel(), g.filter_numel(), g.feature_channels, g.feature_numel()};
    case cuda::ConvRole::kImage: return {g.feature_numel(), g.filter_numel(), g.image_channels, g.image_numel()};
    case cuda::ConvRole::kFilter: break;
  }
  return {g.image_numel(), g.feature_numel(), 0, g.filter_numel()};
}

ConvCase random_conv_case(std::uint64_t seed) {
  Random random(seed);
  for (;;) {
    ConvCase c = any_case(random);
    const Extents out = output_extents(c);
    if (out.h < 1 || out.w < 1 || multiply_adds(c) > kMostProducts) continue;
    const ConvGeometry g = geometry(c);
    if (std::max({g.image_numel(), g.feature_numel(), g.filter_numel()}) > kMostElements) continue;
    c.name = "seed" + std::to_string(seed);
    return c;
  }
}

ConvOperands integer_operands(cuda::ConvRole role, const ConvGeometry& g, DType dtype, std::int64_t first_magnitude,
                              std::int64_t second_magnitude, std::uint64_t seed) {
  return operands(role, g, dtype, {first_magnitude, second_magnitude, 3}, seed);
}

ConvOperands real_operands(cuda::ConvRole role, const ConvGeometry& g, DType dtype, std::uint64_t seed) {
  return operands(role, g, dtype, {0, 0, 0}, seed);
}

Tensor displaced(const Tensor& tensor, std::int64_t offset) {
  if (!tensor.defined()) return {};
  Tensor flat = Tensor::empty({offset + tensor.numel()}, {.dtype = tensor.dtype(), .device = kCUDA});
  return flat.narrow(0, offset, tensor.numel()).reshape(tensor.shape()).copy_(tensor);
}

cuda::ConvProblem conv_problem(cuda::ConvRole role, const ConvGeometry& g, const ConvMode& mode,
                               const ConvOperands& operands, const cuda::Machine& machine) {
  return {.role = role,
          .geometry = g,
          .dtype = mode.dtype,
          .precision = mode.precision,
          .device = 0,
          .machine = machine,
          .first = operands.first.raw_data(),
          .second = operands.second.raw_data(),
          .bias = operands.bias.defined() ? operands.bias.raw_data() : nullptr,
          .out = nullptr};
}

Tensor run_kernel(const cuda::ConvKernel& kernel, cuda::ConvProblem problem) {
  Tensor out =
      Tensor::empty({conv_sizes(problem.role, problem.geometry).out}, {.dtype = problem.dtype, .device = kCUDA});
  problem.out = out.raw_mutable_data();
  if (out.numel() > 0) kernel.run(problem);
  return out;
}

Tensor run_guarded(const RunConv& run, cuda::ConvProblem problem, std::int64_t offset) {
  const std::int64_t count = conv_sizes(problem.role, problem.geometry).out;
  const TensorOptions options{.dtype = problem.dtype, .device = kCUDA};
  Tensor around = Tensor::full({offset + count + 2 * kGuard}, std::numeric_limits<double>::quiet_NaN(), options);
  around = around.narrow(0, offset, count + 2 * kGuard);
  problem.out = around.narrow(0, kGuard, count).raw_mutable_data();
  run(problem);
  return around;
}

Tensor run_guarded(const cuda::ConvKernel& kernel, const cuda::ConvProblem& problem, std::int64_t offset) {
  return run_guarded(RunConv(kernel.run), problem, offset);
}

RunConv boxes_in_tile(const cuda::ConvProblem& problem, cuda::WeightTile tile) {
  if (!cuda::boxes_conv_weight.takes(problem)) return nullptr;
  cuda::WeightPlan plan;
  const cuda::Arithmetic arithmetic = cuda::arithmetic_of(problem);
  if (!cuda::plan_boxed_weight(problem.geometry, arithmetic, problem.machine, plan, tile)) return nullptr;
  return [plan](const cuda::ConvProblem& of) { cuda::run_boxes_conv_weight(plan, of, {}); };
}

void expect_same_guarded(const std::string& what, const Tensor& actual, const Tensor& expected) {
  const Tensor a = actual.to(kCPU), e = expected.to(kCPU);
  ASSERT_EQ(a.numel(), e.numel()) << what;
  if (std::memcmp(a.raw_data(), e.raw_data(), static_cast<std::size_t>(a.numel() * element_size(a.dtype()))) == 0)
    return;
  expect_values(what + ", with " + std::to_string(kGuard) + " elements around", a, e.to_vector<double>());
}

int compute_capability() {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return 10 * major + minor;
}

}  // namespace adjoint::testing
#endif
