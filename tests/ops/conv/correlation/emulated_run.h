// Shared by the tests of conv's and conv_transpose's emulated tensor-core kernels: packed filters, and geometries that
// reach every tile.
#pragma once

#include <adjoint/tests/support/conv_machine.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/correlation/cuda/rows/launch.cuh>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {

/// Half of a problem on integers: conv_transpose, or conv.
struct CorrelationCall {
  const ConvGeometry& geometry;
  bool transposed;
  const std::vector<double>& x;
  const std::vector<double>& filter;
  const std::vector<double>& bias;
  std::vector<double> expected;
  std::uint64_t seed;
  Activation activation = {};

  CorrelationCall(const ConvProblem& p, bool is_transposed, std::uint64_t of_seed, const Activation& activated = {})
      : geometry(p.geometry),
        transposed(is_transposed),
        x(is_transposed ? p.feature : p.image),
        filter(p.filter),
        bias(is_transposed ? p.image_bias : p.feature_bias),
        expected(is_transposed ? oracle::conv_transpose(geometry, x, filter, bias)
                               : oracle::conv(geometry, x, filter, bias)),
        seed(of_seed),
        activation(activated) {}
};

/// Checks the result of a wgmma kernel of the plan for the call: `run(operands, problem)` launches it, and the kernel
/// that packs the problem's filter.
template <class M, class Run>
void expect_exact(const cuda::CorrelationPlan& plan, const CorrelationCall& call, const Run& run) {
  using T = typename M::Element;
  const std::uint64_t seed = call.seed;
  const bool pairs = plan.unit_columns == 2;  // which begin at a multiple of 16 bytes
  Operand<T> in(call.x, pairs ? 0 : seed % 9), biases(call.bias, 0);
  const std::vector<double> nothing(call.expected.size(), std::numeric_limits<double>::quiet_NaN());
  Operand<T> out(nothing, seed % 5), linear(nothing, seed % 5);
  Operand<T> filter(call.filter, seed % 3);
  cuda::CorrelationOperands operands{in.data(),
                                     nullptr,
                                     call.bias.empty() ? nullptr : biases.data(),
                                     out.data(),
                                     cuda::correlation_load_bytes(plan, in.data(), sizeof(T)),
                                     cuda::row_vector(out.data(), plan.out_w, sizeof(T)),
                                     Activate<float>(call.activation)};
  if (!call.activation.is_none() && seed % 2 == 0) operands.linear = linear.data();
  if (M::kDType == kFloat32 || pairs) {
    cuda::set_correlation_ways(plan, M::kSplit, emulation::encode_tensor_map, operands);
  }
  EXPECT_LE(cuda::correlation_smem(plan).end, 232448);
  emulate_launches(seed, plan.cluster * (seed % 2 == 0 ? 2 : 1));
  run(operands, cuda::ConvProblem{.first = in.data(), .second = filter.data()});
  if (operands.linear != nullptr) expect_equal(linear.data(), call.expected);
  std::vector<double> activated = call.expected;
  for (double& value : activated) value = operands.activate(static_cast<float>(value));
  expect_equal(out.data(), activated);
  EXPECT_TRUE(out.surroundings_are_kept() && linear.surroundings_are_kept());
}

/// Ways of loading and storing operands by the copy engine, or storing straight from registers.
inline std::set<std::string> ways_of_operands(const cuda::CorrelationPlan& plan,
                                              const cuda::CorrelationOperands& operands) {
  std::set<std::string> ways;
  if (operands.loads_boxes) {
    ways.insert("comes in boxes");
    if (plan.in_stride_w > 1) ways.insert("comes in boxes with a stride");
    if (plan.gathers) ways.insert("is gathered from boxes");
    if (plan.in_stride_w > 2) ways.insert(plan.gathers ? "is gathered with a wide stride" : "comes with a wide stride");
    if (plan.gathers && plan.boxes > 1 && plan.stage_units > 1) ways.insert("channels are gathered from several boxes");
    if (plan.boxes > 1) ways.insert("comes in several boxes");
    if (plan.pair_taps.first != 0) ways.insert("units begin before the first tap");
  }
  if (operands.stores_boxes) {
    const cuda::CorrelationBoxes boxes = cuda::correlation_boxes(plan);
    ways.insert("leaves in boxes of " + std::to_string(plan.out_stride_w) + " phases");
    if (cuda::correlation_box_width(plan, boxes) < boxes.line) ways.insert("leaves in boxes of several rows");
    if (cuda::correlation_shifts_boxes(plan)) ways.insert("leaves in shifted boxes");
  }
  if (operands.stores_sums) {
    ways.insert("leaves from registers, " + std::to_string(plan.out_stride_w) + " phases");
    if (1 << plan.log2_tile_w < 8) ways.insert("leaves from registers to several rows");
  }
  return ways;
}

/// Ways in which single pixels are stored.
template <class T>
std::set<std::string> ways_of_pixels(const cuda::CorrelationPlan& plan, const cuda::CorrelationOperands& operands) {
  if (operands.stores_boxes || operands.stores_sums ||
      !cuda::correlation_stores_pixels(plan, operands.store_vector, sizeof(T)))
    return {};
  const bool blocked = plan.blocked != 0;
  const int columns = cuda::correlation_staged_columns(plan.tile_columns, blocked) / 2;
  const int positions = cuda::correlation_staged_positions(plan.m_tiles, blocked);
  const int phases = plan.out_stride_w / plan.segments;
  std::set<std::string> ways{"stride " + std::to_string(plan.out_stride_w),
                             "columns " + std::to_string(plan.tile_columns)};
  if (phases > columns) ways.insert("runs of less than a channel");
  if (phases <= columns && columns % phases != 0) ways.insert("cut channels");
  if (plan.class_columns % plan.tile_columns != 0) ways.insert("columns of no channel");
  if (plan.phases_per_class > 1) ways.insert("several rows of phases");
  if (plan.out_h % plan.out_stride_h != 0) ways.insert("rows without all phases");
  if (plan.out_w % plan.out_stride_w != 0) ways.insert("positions without all phases");
  if (1 << plan.log2_tile_w < positions) ways.insert("several rows of positions");
  if (1 << (plan.log2_tile_h + plan.log2_tile_w) < positions) ways.insert("several images");
  if (operands.linear != nullptr) ways.insert("sums as they are");
  return ways;
}

/// Geometries whose conv_transpose reaches those.
inline std::vector<ConvCase> pixel_cases() {
  std::vector<ConvCase> cases;
  for (const std::int64_t stride : {3, 4, 5, 6, 7, 8, 12, 40, 41}) {
    const std::int64_t odd = stride % 2 == 0 ? 1 : 0;  // for rows that are no multiple of their phases or of 16 bytes
    cases.push_back({.batch = 2,
                     .in_channels = 10,
                     .out_channels = 2 + 40 / stride,
                     .input = {1, 70},
                     .kernel = {1, stride + 2},
                     .stride = {1, stride},
                     .padding = {0, 1},
                     .output_padding = {0, odd}});
    cases.push_back({.batch = 1,
                     .in_channels = 10,
                     .out_channels = 2 * (1 + 80 / stride),
                     .groups = 2,
                     .input = {3, 21},
                     .kernel = {2, stride},
                     .stride = {2, stride},
                     .padding = {1, 0},
                     .output_padding = {1, odd}});
    // Tiles of several images; enough channels for the widest.
    cases.push_back({.batch = 9,
                     .in_channels = 10,
                     .out_channels = 3 + 300 / stride,
                     .input = {2, 3},
                     .kernel = {1, stride},
                     .stride = {1, stride},
                     .padding = {0, 0},
                     .output_padding = {0, odd}});
  }
  // A warp's positions of several images, however few they are.
  cases.push_back(
      {.batch = 17, .in_channels = 10, .out_channels = 20, .input = {1, 3}, .kernel = {1, 4}, .stride = {1, 4}});
  // Few channels: a tile has all rows of phases.
  for (const std::int64_t stride : {1, 2, 3, 5}) {
    for (const std::int64_t channels : {1, 3}) {
      cases.push_back({.batch = 2,
                       .in_channels = 20,
                       .out_channels = channels,
                       .input = {5, 19},
                       .kernel = {4, 5},
                       .stride = {3, stride},
                       .padding = {2, 2},
                       .output_padding = {1, 0}});
    }
  }
  return cases;
}

/// The paths that the cases reach together, for all kernels.
inline const std::set<std::string> kWaysOfPixels{"stride 3",
                                                 "stride 4",
                                                 "stride 5",
                                                 "stride 6",
                                                 "stride 7",
                                                 "stride 8",
                                                 "stride 12",
                                                 "stride 40",
                                                 "stride 41",
                                                 "columns 128",
                                                 "cut channels",
                                                 "runs of less than a channel",
                                                 "columns of no channel",
                                                 "rows without all phases",
                                                 "positions without all phases",
                                                 "several rows of positions",
                                                 "several images",
                                                 "sums as they are"};

/// Geometries that reach those of boxes.
inline std::vector<ConvCase> box_cases() {
  std::vector<ConvCase> cases;
  for (const std::int64_t stride : {1, 2, 3, 4, 8}) {
    cases.push_back({.batch = 2,
                     .in_channels = 20,
                     .out_channels = 64 / stride,
                     .input = {1, 140},
                     .kernel = {1, 2 * stride},
                     .stride = {1, stride},
                     .padding = {0, stride / 2}});
    cases.push_back({.batch = 2,
                     .in_channels = 20,
                     .out_channels = 72,
                     .input = {6, 16},
                     .kernel = {3, stride},
                     .stride = {2, stride},
                     .padding = {1, 0},
                     .output_padding = {1, 0}});
  }
  for (const std::int64_t channels : {14, 30, 62, 126}) {
    cases.push_back({.batch = 2, .in_channels = 20, .out_channels = channels, .input = {1, 300}, .kernel = {1, 3}});
  }
  cases.push_back({.batch = 3, .in_channels = 8, .out_channels = 16, .groups = 2, .input = {1, 300}, .kernel = {1, 3}});
  cases.push_back(
      {.batch = 3, .in_channels = 20, .out_channels = 32, .input = {5, 4}, .kernel = {1, 4}, .stride = {1, 4}});
  // Whose conv gathers.
  for (const std::int64_t channels : {1, 3}) {
    for (const std::int64_t stride : {1, 2, 3, 4}) {
      cases.push_back({.batch = 2,
                       .in_channels = channels == 1 ? 56 : 20,
                       .out_channels = channels,
                       .input = {4, 132},
                       .kernel = {4, 5},
                       .stride = {stride, stride},
                       .padding = {2, 2},
                       .output_padding = {0, stride - 1}});
    }
    cases.push_back({.batch = 1,
                     .in_channels = 20,
                     .out_channels = channels,
                     .input = {1, 300},
                     .kernel = {1, 5},
                     .stride = {1, 2},
                     .padding = {0, 2},
                     .output_padding = {0, 1}});
  }
  return cases;
}

/// A wgmma kernel's tests.
class CorrelationFixture : public ::testing::Test {
 protected:
  /// Tiles and ways through the kernel that the geometries have reached.
  std::set<std::string> reached, ways, tiles;
  bool read_again = false;     // results are stored by threads, as for a kernel that reads them again
  bool pairs_columns = false;  // units of half precision are pairs of columns
  cuda::Machine machine = kOneMultiprocessor;

  /// False if the kernels do not support the geometry.
  virtual bool compute(const CorrelationCall& call) = 0;

  /// The numbers of conv_transpose and conv that they support.
  int compute_both(const ConvCase& c, std::uint64_t seed, const Activation& activation = {}) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    int taken = 0;
    for (const bool transposed : {true, false}) taken += compute({p, transposed, seed, activation});
    return taken;
  }
};

/// Kernels whose conv may read its image in pairs of columns.
inline std::vector<ConvCase> pair_cases() {
  std::vector<ConvCase> cases;
  for (const std::int64_t stride : {2, 4}) {
    for (const std::int64_t kernel : {2, 3, 4}) {
      for (const std::int64_t padding : {0, 1}) {
        // The image's rows are a multiple of eight long.
        const std::int64_t length = 15 * stride - 2 * padding + kernel, more = (8 - length % 8) % 8;
        cases.push_back({.batch = 2,
                         .in_channels = 20,
                         .out_channels = 6 * kernel,
                         .input = {3, 16 + more / stride},
                         .kernel = {2, kernel},
                         .stride = {1, stride},
                         .padding = {0, padding},
                         .output_padding = {0, more % stride}});
      }
    }
  }
  cases.push_back({.batch = 2,
                   .in_channels = 40,
                   .out_channels = 130,
                   .input = {8, 8},
                   .kernel = {4, 4},
                   .stride = {2, 2},
                   .padding = {1, 1}});
  cases.push_back({.batch = 1,
                   .in_channels = 50,
                   .out_channels = 3,
                   .input = {1, 264},
                   .kernel = {1, 4},
                   .stride = {1, 2},
                   .padding = {0, 1}});
  cases.push_back({.batch = 1,
                   .in_channels = 12,
                   .out_channels = 40,
                   .groups = 2,
                   .input = {2, 131},
                   .kernel = {1, 3},
                   .stride = {1, 2},
                   .padding = {0, 1},
                   .output_padding = {0, 1},
                   .dilation = {1, 2}});
  return cases;
}

/// Columns and positions, and true if steps use half of the columns.
inline std::string tile_name(const cuda::CorrelationPlan& plan) {
  return std::to_string(plan.tile_columns) + " x " + std::to_string(64 * plan.m_tiles * plan.consumers) +
         (plan.halves() ? " in halves" : "");
}

/// Between them they use every tile and every way through the kernels.
inline std::vector<ConvCase> every_tile_cases() {
  return {
      {.batch = 1, .in_channels = 20, .out_channels = 9, .input = {1, 700}, .kernel = {1, 3}},
      {.batch = 1, .in_channels = 33, .out_channels = 30, .input = {9, 40}, .kernel = {3, 3}, .padding = {1, 1}},
      {.batch = 1, .in_channels = 36, .out_channels = 61, .input = {1, 500}, .kernel = {1, 5}, .dilation = {1, 3}},
      {.batch = 1, .in_channels = 40, .out_channels = 125, .input = {1, 515}, .kernel = {1, 3}},
      {.batch = 1, .in_channels = 70, .out_channels = 128, .input = {16, 16}, .kernel = {1, 1}},
      {.batch = 2, .in_channels = 64, .out_channels = 128, .input = {8, 8}, .kernel = {2, 2}, .stride = {2, 2}},
      {.batch = 5,
       .in_channels = 40,
       .out_channels = 64,
       .input = {8, 8},
       .kernel = {4, 4},
       .stride = {2, 2},
       .padding = {1, 1}},
      {.batch = 1,
       .in_channels = 20,
       .out_channels = 36,
       .input = {1, 300},
       .kernel = {1, 16},
       .stride = {1, 8},
       .padding = {0, 4}},
      {.batch = 1,
       .in_channels = 24,
       .out_channels = 1,
       .input = {12, 40},
       .kernel = {9, 9},
       .stride = {3, 3},
       .padding = {4, 4},
       .output_padding = {2, 2}},
      {.batch = 1,
       .in_channels = 18,
       .out_channels = 17,
       .input = {12, 20},
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {9, 9},
       .dilation = {9, 9}},
  };
}

}  // namespace adjoint::testing
