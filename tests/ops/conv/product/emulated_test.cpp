// The kernel for products of matrices on the emulator: exact on small integers in every form, at any address of the
// results and in any order of execution.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/base/numbers.h>
#include <adjoint/ops/conv/sums/cuda/slices.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/layouts/cuda/aligned_lines.cuh>
#include <adjoint/ops/conv/product/cuda/launch.cuh>
#include <adjoint/ops/conv/sums/cuda/slices.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

/// The parts of the kernel that the cases have reached.
using Reached = std::set<std::string>;

/// A factor's lines, `pitch` apart, with values between them that may not be read.
template <class T>
Operand<T> factor(const cuda::ProductMatrix& m, const std::vector<double>& values) {
  const auto width = static_cast<std::size_t>(m.width), pitch = static_cast<std::size_t>(m.pitch);
  std::vector<double> padded(static_cast<std::size_t>(m.lines) * pitch, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (m.source_line == 0) {
      padded[i / width * pitch + i % width] = values[i];
    } else {
      const auto at = static_cast<std::int64_t>(i), inner = m.extents[1];
      // Lines of all groups, or groups of lines.
      const bool lines_first = m.extents[2] == 1 || m.source_line > m.source_group;
      const std::int64_t line = lines_first ? at / m.source_line : at % m.source_group / m.source_line;
      const std::int64_t group = lines_first ? at % m.source_line / m.source_group : at / m.source_group;
      padded[static_cast<std::size_t>((group * inner + at % inner) * m.pitch + line)] = values[i];
    }
  }
  return Operand<T>(padded, 0);
}

template <class M>
void check(const ConvProblem& p, cuda::ConvRole role, const Activation& activation, const cuda::Machine& machine,
           std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  const ConvGeometry& g = p.geometry;
  const bool filter = role == cuda::ConvRole::kFilter, transposed = role == cuda::ConvRole::kImage;
  SCOPED_TRACE(filter ? "conv_weight" : transposed ? "conv_transpose" : "conv");
  cuda::ProductPlan plan;
  const bool planned = cuda::plan_product(g,
                                          filter       ? cuda::ProductOf::kFilter
                                          : transposed ? cuda::ProductOf::kImage
                                                       : cuda::ProductOf::kFeature,
                                          M::kArithmetic, machine, plan);
  ASSERT_TRUE(planned);
  Expected expected;
  if (filter) {
    expected.sums = expected.results = oracle::conv_weight(g, p.image, p.feature);
  } else {
    expected = expected_results(p, transposed, activation);
  }
  const std::vector<double>& first = transposed ? p.feature : p.image;
  const std::vector<double>& second = filter ? p.feature : p.filter;
  const std::vector<double> bias = filter ? std::vector<double>{} : transposed ? p.image_bias : p.feature_bias;
  const std::vector<double> nothing(expected.sums.size(), std::numeric_limits<double>::quiet_NaN());
  Operand<T> rows = factor<T>(plan.rows, plan.rows_are_samples ? first : second);
  Operand<T> columns = factor<T>(plan.columns, plan.rows_are_samples ? second : first);
  Operand<T> biases(bias, 0), out(nothing, seed % 3 == 0 ? 0 : seed % 5), linear(nothing, seed % 2);
  Operand<float> partial(std::vector<double>(static_cast<std::size_t>(plan.partial_bytes()) / sizeof(float), 0.0), 0);
  const cuda::ConvProblem problem{.role = role,
                                  .geometry = g,
                                  .dtype = M::kDType,
                                  .precision = Precision::kFull,
                                  .device = 0,
                                  .bias = bias.empty() ? nullptr : biases.data(),
                                  .out = out.data(),
                                  .activation = activation,
                                  .linear = activation.is_none() || filter ? nullptr : linear.data()};
  float* const sums = plan.slices > 1 ? partial.data() : nullptr;
  const auto operands =
      cuda::product_operands<T>(plan, problem, rows.data(), columns.data(), sums, emulation::encode_tensor_map);
  // Fewer blocks than tiles: teams alternate.
  emulate_launches(seed, plan.slices > 1 ? 200 : 0);
  cuda::run_product_in<M::kArithmetic>(plan, problem, rows.data(), columns.data(), sums);
  if (plan.slices > 1) {
    if (cuda::sliced::addition_of<T>(problem, sums, plan.slices).lanes > 1) reached.insert("shared slices");
    cuda::add_slices(problem, sums, plan.slices);
  }
  expect_equal(out.data(), expected.results);
  EXPECT_TRUE(out.surroundings_are_kept());
  if (problem.linear != nullptr) expect_equal(linear.data(), expected.sums);
  const std::string form = filter ? "filter, " : plan.rows_are_samples ? "samples, " : "positions, ";
  reached.insert(form + (plan.rows_by_depth ? "depth" : "rows") +
                 (plan.columns_by_depth ? " and depth" : " and columns"));
  const std::string of = plan.columns_from_registers ? ", positions from registers" : "";
  reached.insert((plan.rows_stay ? "rows that stay" : "rows that pass") + of);
  reached.insert((operands.stores_boxes ? "boxes" : operands.stores_vectors ? "vectors" : "elements") + of);
  if (!activation.is_none()) reached.insert("activation" + of);
  if (plan.slices > 1) reached.insert("slices" + of);
  if (plan.out_buffers == 1) reached.insert("one buffer");
  if (plan.row_tiles > 1) reached.insert("row tiles");
  if (plan.all_column_blocks % plan.tile_column_blocks != 0 && plan.column_tiles() > 1)
    reached.insert("part of a tile");
  if (plan.rows.pitch > plan.rows.width || plan.columns.pitch > plan.columns.width) reached.insert("padded lines");
  if (plan.columns_from_registers) {
    reached.insert(plan.tile_column_blocks == 8 ? "two products" : "one product");
  } else {
    reached.insert(plan.tile_row_blocks == 1 ? "wide tiles" : "square tiles");
  }
  if (plan.groups > 1) reached.insert("groups");
  if (plan.rows.source_line != 0 || plan.columns.source_line != 0) reached.insert("transposed");
}

template <class M>
class ProductEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(ProductEmulation, ProductModes);

TYPED_TEST(ProductEmulation, EveryFormIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "planes", .batch = 3, .in_channels = 72, .out_channels = 40, .input = {8, 16}},
      {.name = "odd", .batch = 2, .in_channels = 70, .out_channels = 35, .input = {7, 11}},
      {.name = "groups", .batch = 2, .in_channels = 48, .out_channels = 144, .groups = 3, .input = {5, 8}},
      {.name = "wide", .in_channels = 16, .out_channels = 136, .input = {1, 264}},
      {.name = "deep", .batch = 2, .in_channels = 584, .out_channels = 16, .input = {4, 16}},
      {.name = "kept", .batch = 3, .in_channels = 450, .out_channels = 100, .input = {8, 16}},
      {.name = "many_samples", .batch = 72, .in_channels = 8, .out_channels = 9, .input = {1, 16}},
      {.name = "samples", .batch = 70, .in_channels = 100, .out_channels = 200},
      {.name = "samples_of_groups", .batch = 5, .in_channels = 90, .out_channels = 36, .groups = 3},
      {.name = "one", .in_channels = 1, .out_channels = 1},
  };
  std::uint64_t seed = 0;
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const int multiprocessors : {1, 132}) {
      const cuda::Machine machine{.multiprocessors = multiprocessors};
      for (const cuda::ConvRole role : cuda::kConvRoles) {
        const bool activates = ++seed % 4 == 1 && role != cuda::ConvRole::kFilter;
        check<TypeParam>(p, role, activates ? kReLU : Activation{}, machine, seed, reached);
      }
    }
  }
  Reached all{"samples, depth and depth",
              "filter, depth and depth",
              "rows that pass",
              "vectors",
              "elements",
              "activation",
              "slices",
              "shared slices",
              "row tiles",
              "part of a tile",
              "padded lines",
              "wide tiles",
              "square tiles",
              "groups",
              "rows that stay"};
  if (TypeParam::kDType == kFloat32) {
    all.insert({"positions, depth and columns", "transposed", "one product", "two products"});
    for (const char* what : {"rows that stay", "rows that pass", "vectors", "elements", "activation", "slices"}) {
      all.insert(std::string(what) + ", positions from registers");
    }
  } else {
    all.insert({"positions, rows and columns", "positions, depth and columns", "samples, depth and columns",
                "filter, rows and columns", "boxes", "one buffer"});
  }
  EXPECT_EQ(reached, all);
}

TEST(ProductCopy, FloatsAreTransposed) {
  constexpr std::int64_t kLines = 37, kColumns = 70, kPitch = 40;
  std::vector<float> from(2 * kLines * kColumns), to(2 * kColumns * kPitch, -1.0F);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i + 1);
  emulation::run({.grid = {2 * 3, 2}, .block = {cuda::product::kTransposeTile, cuda::product::kTransposeRows}}, [&] {
    cuda::product::transpose_kernel(from.data(), to.data(), kLines, kColumns, kPitch, 2 * kColumns, kColumns, 2);
  });
  for (std::int64_t group = 0; group < 2; ++group) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      for (std::int64_t line = 0; line < kPitch; ++line) {
        const std::int64_t at = (2 * line + group) * kColumns + column;
        const float expected = line < kLines ? from[static_cast<std::size_t>(at)] : 0.0F;
        ASSERT_EQ(to[static_cast<std::size_t>((group * kColumns + column) * kPitch + line)], expected);
      }
    }
  }
}

TEST(ProductCopy, LinesBeginAtWholeVectors) {
  for (const std::int64_t width : {1, 6, 49, 196, 200}) {
    for (const std::int64_t offset : {0, 1, 2, 4}) {
      SCOPED_TRACE(::testing::Message() << "width " << width << ", offset " << offset);
      const cuda::ProductMatrix matrix{.lines = 21, .width = width, .pitch = (width + 7) / 8 * 8};
      std::vector<std::uint16_t> from(static_cast<std::size_t>(matrix.lines * width + offset + 8));
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint16_t>(i + 1);
      std::vector<uint4> to(static_cast<std::size_t>(matrix.lines * matrix.pitch / 8));
      const auto* const first = from.data() + offset;
      const int vector = cuda::product::copy_vector(first, width);
      const auto kernel = vector == 4   ? cuda::product::copy_lines_kernel<4>
                          : vector == 2 ? cuda::product::copy_lines_kernel<2>
                                        : cuda::product::copy_lines_kernel<1>;
      auto* const lines = reinterpret_cast<std::uint16_t*>(to.data());
      const auto blocks = cuda::ceil_div(static_cast<std::int64_t>(to.size()), cuda::product::kCopyThreads);
      emulation::run({.grid = {static_cast<unsigned>(blocks)}, .block = {cuda::product::kCopyThreads}}, [&] {
        kernel(first, lines, matrix.lines, width, Divider(static_cast<std::uint32_t>(matrix.pitch / 8)));
      });
      for (std::int64_t i = 0; i < matrix.lines * matrix.pitch; ++i) {
        const std::int64_t line = i / matrix.pitch, column = i % matrix.pitch;
        ASSERT_EQ(lines[i], column < width ? first[line * width + column] : 0) << i;
      }
    }
  }
}

TEST(ProductPlan, OnlyProductsOfMatrices) {
  cuda::ProductPlan plan;
  const ConvCase others[] = {{.input = {4, 4}, .kernel = {1, 3}},
                             {.input = {4, 4}, .stride = {2, 1}},
                             {.input = {4, 4}, .padding = {0, 1}},
                             {.input = {4, 4}, .stride = {1, 2}, .output_padding = {0, 1}}};
  for (const ConvCase& c : others) {
    for (const cuda::ProductOf of : {cuda::ProductOf::kFeature, cuda::ProductOf::kImage, cuda::ProductOf::kFilter}) {
      EXPECT_FALSE(cuda::plan_product(geometry(c), of, cuda::Arithmetic::kBFloat16, {}, plan)) << c;
      EXPECT_FALSE(cuda::plan_product(geometry(c), of, cuda::Arithmetic::kTF32, {}, plan)) << c;
    }
  }
}

TEST(ProductPlan, NothingIsEmpty) {
  for (const Extent2 input : {Extent2{4, 4}, Extent2{1, 1}}) {
    ConvGeometry g = geometry({.in_channels = 8, .out_channels = 8, .input = input});
    g.batch = 0;
    for (const cuda::ProductOf of : {cuda::ProductOf::kFeature, cuda::ProductOf::kImage, cuda::ProductOf::kFilter}) {
      cuda::ProductPlan plan;
      EXPECT_FALSE(cuda::plan_product(g, of, cuda::Arithmetic::kBFloat16, {}, plan));
      EXPECT_FALSE(cuda::plan_product(g, of, cuda::Arithmetic::kTF32, {}, plan));
    }
  }
}

// Instead of sums of slices, which a second kernel adds.
TEST(ProductPlan, FewPositionsHaveSmallTiles) {
  const auto plan_of = [](std::int64_t batch) {
    const ConvCase c{.batch = batch, .in_channels = 512, .out_channels = 512, .input = {64, 64}};
    cuda::ProductPlan plan;
    EXPECT_TRUE(cuda::plan_product(geometry(c), cuda::ProductOf::kFeature, cuda::Arithmetic::kTF32, {}, plan));
    return plan;
  };
  EXPECT_EQ(plan_of(1).tile_column_blocks, 4);
  EXPECT_EQ(plan_of(1).slices, 1);
  EXPECT_EQ(plan_of(16).tile_column_blocks, 8);
}

TEST(ProductPlan, LongSumsAreSliced) {
  const ConvCase wide{.batch = 64, .in_channels = 2048, .out_channels = 2048, .input = {64, 64}};
  cuda::ProductPlan plan;
  ASSERT_TRUE(cuda::plan_product(geometry(wide), cuda::ProductOf::kFilter, cuda::Arithmetic::kBFloat16, {}, plan));
  EXPECT_LE(plan.slice_stages, 512);
  EXPECT_LE(plan.partial_bytes(), 256 << 20);
  const ConvCase huge{.batch = 64, .in_channels = 8192, .out_channels = 8192, .input = {64, 64}};
  ASSERT_TRUE(cuda::plan_product(geometry(huge), cuda::ProductOf::kFilter, cuda::Arithmetic::kBFloat16, {}, plan));
  EXPECT_LE(plan.partial_bytes(), 256 << 20);
}

}  // namespace
}  // namespace adjoint::testing
