// Every compiled kernel of the trio runs, through dispatch's list, and every path through the correlation kernels'
// loading and storing: random geometries, each exact on integers, until nothing is left. The kernels are listed from
// the modules of those that ran, so a new kernel needs no line here except its namespace.
#ifdef ADJOINT_WITH_CUDA

#include <adjoint/core/cuda/launch_observer.h>
#include <adjoint/ops/conv/correlation/cuda/mma/mma.h>
#include <adjoint/ops/conv/correlation/store_boxes.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/tests/support/conv_cuda.h>
#include <adjoint/tests/support/conv_layers.h>
#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/kernel_names.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// All kernels that were compiled together with this one.
std::vector<CUfunction> functions_beside(CUfunction function) {
  static auto* const get_module = driver<CUresult(CUmodule*, CUfunction)>("cuFuncGetModule");
  static auto* const get_count = driver<CUresult(unsigned*, CUmodule)>("cuModuleGetFunctionCount");
  static auto* const get_all = driver<CUresult(CUfunction*, unsigned, CUmodule)>("cuModuleEnumerateFunctions");
  CUmodule module = nullptr;
  unsigned count = 0;
  EXPECT_EQ(get_module(&module, function), CUDA_SUCCESS);
  EXPECT_EQ(get_count(&count, module), CUDA_SUCCESS);
  std::vector<CUfunction> functions(count);
  EXPECT_EQ(get_all(functions.data(), count, module), CUDA_SUCCESS);
  return functions;
}

/// Excludes the kernels that fill and copy operands.
bool is_of_the_trio(const std::string& name) {
  for (const char* module :
       {"correlation::", "correlation_mma::", "weight::", "channelwise::", "narrow::", "packed::", "product::",
        "col2im::", "blocked::", "sliced::", "rearranged::", "few_results::", "short_sums::", "tapwise::", "pipeline::",
        "depthwise::", "few_sources::", "conv_gather", "conv_weight_parts"}) {
    if (name.find(module) != std::string::npos) return true;
  }
  return false;
}

bool is_blocked(const std::string& name) { return name.find("blocked_kernel<") != std::string::npos; }

/// Kernels whose results are float32, of slices, for all operands.
bool is_partial(const std::string& name) { return is_blocked(name) && name.find(", true>(") != std::string::npos; }

bool is_correlation(const std::string& name) {
  return name.find("correlation_kernel<") != std::string::npos ||
         name.find("correlation_mma_kernel<") != std::string::npos || is_blocked(name);
}

/// The paths of a correlation kernel's code that depend on alignment. Paths that the copy engine replaces for aligned
/// operands are reached only by the few problems that it does not support.
std::vector<std::string> all_paths(const std::string& name) {
  if (is_partial(name)) return {};
  const bool mma = name.find("correlation_mma") != std::string::npos;
  const bool half = name.find("Arithmetic)2") != std::string::npos || name.find("Arithmetic)3") != std::string::npos;
  const bool boxes = !mma && !half;
  std::vector<std::string> paths{", stores of one", ", stores of two", ", stores of pixels"};
  paths.emplace_back(boxes ? ", stores of boxes" : ", stores of 16 bytes");
  const bool narrow = name.find(", 16, ") != std::string::npos || name.find(", 32, ") != std::string::npos;
  if (boxes && !narrow) paths.emplace_back(", stores of sums");
  if (is_blocked(name)) return paths;
  paths.emplace_back(boxes ? ", copies of boxes" : ", copies of 16 bytes");
  paths.emplace_back(", copies of 4 bytes");
  if (!mma || !half) paths.emplace_back(", copies of 8 bytes");
  if (half) paths.emplace_back(", copies of 2 bytes");
  return paths;
}

/// Kernels that `kernel` runs for the problem; `out` has the result's alignment.
std::vector<std::string> paths_of(const std::string& kernel, cuda::ConvProblem problem, const void* out) {
  if (problem.role == cuda::ConvRole::kFilter) return {};
  const bool mma = kernel.starts_with("mma_"), blocked = kernel.starts_with("blocked_");
  if (!mma && !blocked && !kernel.starts_with("correlation_")) return {};
  const cuda::Arithmetic arithmetic = cuda::arithmetic_of(problem);
  const bool transposed = problem.role == cuda::ConvRole::kImage;
  const std::int64_t size = element_size(problem.dtype);
  problem.out = const_cast<void*>(out);
  cuda::CorrelationPlan plan;
  if (mma) {
    EXPECT_TRUE(
        cuda::plan_correlation_mma(problem.geometry, transposed, arithmetic, cuda::kMmaLimits, problem.machine, plan));
  } else {
    EXPECT_TRUE(cuda::plan_correlation(problem.geometry, transposed, arithmetic,
                                       blocked ? cuda::kBlockedLimits : cuda::kCorrelationLimits, problem.machine,
                                       plan));
  }
  const std::int64_t loaded = mma ? cuda::mma_load_vector(plan, problem.first, size) * size
                                  : cuda::correlation_load_bytes(plan, problem.first, size);
  const std::int32_t stored = cuda::correlation_store_vector(plan, problem, size);
  const bool boxes = !mma && problem.dtype == kFloat32;
  const bool pixels = cuda::correlation_stores_pixels(plan, stored, static_cast<std::int32_t>(size));
  cuda::CorrelationOperands operands{.out = problem.out, .activate = Activate<float>(problem.activation)};
  operands.linear = problem.linear;
  const std::string stores = boxes && cuda::correlation_stores_sums(plan, operands) ? ", stores of sums"
                             : boxes && cuda::correlation_stores_boxes(plan, out)   ? ", stores of boxes"
                             : pixels                                               ? ", stores of pixels"
                             : stored == 1                                          ? ", stores of one"
                             : stored == 2                                          ? ", stores of two"
                                                                                    : ", stores of 16 bytes";
  if (blocked) return {stores};
  if (boxes && cuda::correlation_loads_boxes(plan, problem.first)) return {", copies of boxes", stores};
  return {", copies of " + std::to_string(loaded) + " bytes", stores};
}

/// The kernels that have run, and those of the modules seen that have not.
class Coverage {
 public:
  /// All kernels that `run` launches have run; the correlation kernels among them have taken `paths`.
  template <class Run>
  void add(const Run& run, const std::vector<std::string>& paths) {
    launched.clear();
    cuda::observe_launches([](void* function) { launched.insert(static_cast<CUfunction>(function)); });
    run();
    cuda::observe_launches(nullptr);
    for (const CUfunction function : launched) {
      const std::string& name = known(function);
      mark(name);
      if (!is_correlation(name)) continue;
      for (const std::string& path : paths) mark(name + path);
    }
  }

  const std::set<std::string>& left() const { return left_; }

 private:
  void mark(const std::string& what) {
    left_.erase(what);
    done_.insert(what);
  }
  void expect(const std::string& what) {
    if (!done_.contains(what)) left_.insert(what);
  }

  /// Its name; at the first kernel of one of the trio's modules, all of that module must run.
  const std::string& known(CUfunction function) {
    if (!names_.contains(function) && !is_of_the_trio(function_name(function))) {
      names_[function] = function_name(function);
    } else if (!names_.contains(function)) {
      names_[function] = function_name(function);
      for (const CUfunction other : functions_beside(function)) {
        const std::string& name = names_[other] = function_name(other);
        expect(name);
        if (!is_correlation(name)) continue;
        for (const std::string& path : all_paths(name)) expect(name + path);
      }
    }
    return names_.at(function);
  }

  static inline std::set<CUfunction> launched;
  std::map<CUfunction, std::string> names_;
  std::set<std::string> left_, done_;
};

/// In every tile, by the copy engine.
void run_boxes_tiles(const ConvMode& mode, const ConvGeometry& g, const ConvOperands& operands, const Tensor& expected,
                     std::int64_t offset, Coverage& coverage) {
  const ConvOperands aligned{displaced(operands.first, 0), displaced(operands.second, 0), {}};
  const cuda::ConvProblem problem = conv_problem(cuda::ConvRole::kFilter, g, mode, aligned);
  for (const cuda::WeightTile tile : cuda::kWgmmaWeightTiles) {
    const RunConv run = boxes_in_tile(problem, tile);
    if (run == nullptr) continue;
    Tensor result;
    coverage.add([&] { result = run_guarded(run, problem, offset); }, {});
    expect_same_guarded("boxes_conv_weight", result, expected);
  }
}

/// Every kernel that takes the problem, in every arithmetic, against the plain one.
void run_all(const ConvCase& c, std::uint64_t seed, Coverage& coverage) {
  constexpr ConvMode kFloat64Mode{"float64", kFloat64, Precision::kFull};
  SCOPED_TRACE(c);
  // Every alignment twice, for the second time in the tiles that large problems get. A filter's sums are in splits,
  // which one multiprocessor does without, both times.
  const bool is_large = (seed & 16) != 0;
  const ConvGeometry g = geometry(c);
  std::vector<ConvMode> modes(std::begin(kConvModes), std::end(kConvModes));
  modes.push_back(kFloat64Mode);
  for (const ConvMode& mode : modes) {
    for (const cuda::ConvRole role : kConvRoles) {
      const ConvOperands operands = integer_operands(role, g, mode.dtype, 3, 3, seed);
      const auto offset = static_cast<std::int64_t>(seed % 16);
      const auto out = static_cast<std::uintptr_t>(4096 + (offset + kGuard) * element_size(mode.dtype));
      const cuda::ConvKernel& plain = *cuda::conv_kernels(role).back();
      Tensor expected;
      coverage.add([&] { expected = run_guarded(plain, conv_problem(role, g, mode, operands), offset); }, {});
      std::vector<cuda::Machine> machines;
      if (is_large) machines.push_back(kOneMultiprocessor);
      if (!is_large || role == cuda::ConvRole::kFilter) machines.emplace_back();
      for (const cuda::Machine& machine : machines) {
        const cuda::ConvProblem problem = conv_problem(role, g, mode, operands, machine);
        for (const cuda::ConvKernel* kernel : cuda::conv_kernels(role)) {
          if (kernel == &plain || !kernel->takes(problem)) continue;
          Tensor result;
          coverage.add([&] { result = run_guarded(*kernel, problem, offset); },
                       paths_of(kernel->name, problem, reinterpret_cast<const void*>(out)));
          expect_same_guarded(std::string(kernel->name) + ", " + mode.name, result, expected);
        }
      }
      if (role == cuda::ConvRole::kFilter && seed == 0) run_boxes_tiles(mode, g, operands, expected, offset, coverage);
    }
  }
}

ConvCase four_phases(std::int64_t batch, std::int64_t channels, const Extent2& input, std::int64_t padding) {
  return {.name = "four_phases",
          .batch = batch,
          .in_channels = 20,
          .out_channels = channels,
          .input = input,
          .kernel = {1, 4 + 2 * padding},
          .stride = {1, 4},
          .padding = {0, padding}};
}

/// Shapes that random geometries hardly meet.
std::vector<ConvCase> rare_cases() {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;  // positions past 32 bits
  std::vector<ConvCase> cases = {
      {.name = "far", .in_channels = 3, .out_channels = 5, .input = {1, 20}, .kernel = {1, 1}, .dilation = {1, kFar}},
      {.name = "wide_strided",
       .in_channels = 2,
       .out_channels = 2,
       .groups = 2,
       .input = {12, 40},
       .kernel = {7, 7},
       .stride = {2, 2},
       .padding = {3, 3}},
      {.name = "paired_line",
       .in_channels = 20,
       .out_channels = 128,
       .input = {1, 128},
       .kernel = {1, 4},
       .stride = {1, 2},
       .padding = {0, 1}},
      {.name = "short_rows_in_halves",
       .batch = 6,
       .in_channels = 20,
       .out_channels = 20,
       .input = {4, 8},
       .kernel = {1, 4},
       .stride = {1, 2},
       .padding = {0, 1}},
      {.name = "every_second",
       .batch = 6,
       .in_channels = 20,
       .out_channels = 20,
       .input = {1, 8},
       .kernel = {3, 1},
       .stride = {1, 2}},
      {.name = "two_channels",
       .in_channels = 2,
       .out_channels = 32,
       .input = {1, 16},
       .kernel = {3, 5},
       .padding = {0, 2}},
      {.name = "every_fourth",
       .in_channels = 9,
       .out_channels = 8,
       .input = {6, 16},
       .kernel = {4, 1},
       .stride = {2, 4}},
      {.name = "nine_channels", .batch = 6, .in_channels = 9, .out_channels = 64, .input = {4, 16}, .kernel = {1, 2}},
      {.name = "sixteen_taps",
       .batch = 2,
       .in_channels = 2,
       .out_channels = 64,
       .input = {4, 40},
       .kernel = {1, 16},
       .stride = {2, 4},
       .padding = {0, 2}},
      {.name = "kernel_is_stride",
       .batch = 6,
       .in_channels = 3,
       .out_channels = 20,
       .input = {1, 128},
       .kernel = {1, 4},
       .stride = {1, 4}},
  };
  for (const std::int64_t channels : {1, 2, 3, 6}) {
    for (const std::int64_t dilation : {std::int64_t{1}, kFar}) {
      cases.push_back({.name = "volume",
                       .rank = 3,
                       .in_channels = channels,
                       .out_channels = channels,
                       .input = {3, 4, 5},
                       .kernel = {dilation == 1 ? 2 : 1, 2, 2},
                       .dilation = {dilation, 1, 1}});
    }
  }
  // Lines whose taps are gathered in tiles of 64 columns. Operands may begin anywhere, so a single length may never be
  // aligned.
  for (const std::int64_t length : {600, 808, 1224}) {
    cases.push_back(
        {.name = "gathered_line", .in_channels = 10, .out_channels = 40, .input = {1, length}, .kernel = {1, 4}});
  }
  // Four phases of whole sectors: sums that leave wide tiles from registers, in all taps together and in two halves.
  for (const std::int64_t channels : {16, 32, 64}) {
    for (const Extent2 input : {Extent2{1, 128}, Extent2{6, 6}}) {
      for (const std::int64_t padding : {0, 2}) cases.push_back(four_phases(3, channels, input, padding));
    }
  }
  return cases;
}

/// Whose positions fill tiles of 256, on all multiprocessors: too many for every alignment.
std::vector<ConvCase> large_cases() { return {four_phases(64, 16, {1, 1024}, 0), four_phases(64, 16, {1, 1024}, 2)}; }

TEST(ConvCoverageCuda, EveryCompiledKernelRuns) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  if (compute_capability() != 90) GTEST_SKIP() << "kernels for sm_90a do not run here";
  constexpr std::uint64_t kAlignments = 32, kLargeTiles = 16, kMostRandom = 6000;
  Coverage coverage;
  for (const auto& cases : {conv_layers(), conv_tile_cases(), conv_sliced_cases(), rare_cases()}) {
    for (const ConvCase& c : cases) {
      for (std::uint64_t seed = 0; seed < kAlignments; ++seed) run_all(c, seed, coverage);
    }
  }
  for (const ConvCase& c : large_cases()) run_all(c, 0, coverage);
  for (const ConvCase& c : conv_large_tile_cases()) run_all(c, kLargeTiles, coverage);
  for (std::uint64_t seed = 0; seed < kMostRandom && !coverage.left().empty(); ++seed) {
    run_all(random_conv_case(seed), seed, coverage);
  }
  for (const std::string& what : coverage.left()) ADD_FAILURE() << "never run: " << what;
}

}  // namespace
}  // namespace adjoint::testing
#endif
