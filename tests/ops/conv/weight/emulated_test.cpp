// conv_weight's tensor-core kernels on the emulator: exact on small integers in every arithmetic and at any address.
#include <adjoint/ops/conv/layouts/orders.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/weight/cuda/boxes/launch.cuh>
#include <adjoint/ops/conv/weight/cuda/copied/launch.cuh>
#include <adjoint/ops/conv/weight/cuda/mma/launch.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

template <class M>
class WeightEmulation : public ::testing::Test {
 protected:
  using T = typename M::Element;

  static void add_splits(const cuda::WeightPlan& plan, std::uint64_t seed, const std::vector<float>& partial, T* filter,
                         const cuda::WeightOrder& order = {}) {
    cuda::weight::AddGrid grid = cuda::weight::add_grid(plan);
    // Few threads, which are slow here.
    const std::int32_t rounds = plan.tile_columns / grid.columns;
    grid.blocks = grid.blocks * grid.rounds / rounds;
    grid.rounds = rounds;
    grid.tile_blocks = Divider(1);
    const auto kernel = cuda::weight::add_splits_kernel_of<T>(grid);
    emulation::run({.grid = {static_cast<unsigned>(grid.blocks)},
                    .block = {static_cast<unsigned>(cuda::weight::kAddThreads)},
                    .seed = seed,
                    .smem_bytes = grid.smem_bytes},
                   [&] { kernel(plan, order, grid, partial.data(), filter); });
  }

  template <class Kernel>
  static void compute(const ConvCase& c, std::uint64_t seed, const cuda::WeightPlan& plan, Kernel kernel, bool wgmma) {
    const ConvProblem p = integer_problem(geometry(c));
    Operand<T> image(p.image, seed % 9), feature(p.feature, seed % 5);
    Operand<T> out(std::vector<double>(p.filter.size(), std::numeric_limits<double>::quiet_NaN()), 0);
    std::vector<float> partial(static_cast<std::size_t>(cuda::weight_workspace_bytes(plan) / 4));
    const cuda::WeightOperands operands =
        wgmma ? cuda::weight::wgmma_operands_of(plan, image.data(), feature.data(), partial.data(), sizeof(T))
              : cuda::weight::operands_of(plan, image.data(), feature.data(), partial.data(), sizeof(T));
    const int threads = wgmma ? cuda::weight::kWgmmaThreads : cuda::weight::kThreads;
    emulation::run({.grid = {static_cast<unsigned>(plan.blocks_per_split() * plan.splits)},
                    .block = {static_cast<unsigned>(threads)},
                    .seed = seed,
                    .smem_bytes = static_cast<std::size_t>(wgmma ? cuda::wgmma_weight_smem_bytes(plan, M::kSplit)
                                                                 : cuda::weight_smem_bytes(plan))},
                   [&] { kernel(plan, operands); });
    add_splits(plan, seed, partial, out.data());
    expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
  }

  /// By boxes if the image's offset is a multiple of 16 bytes, otherwise element by element.
  static bool compute_boxes(const ConvCase& c, std::uint64_t seed, cuda::WeightTile tile, std::size_t offset) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    return compute_boxes(p.geometry, p.image, p.feature, {}, oracle::conv_weight(p.geometry, p.image, p.feature), seed,
                         tile, offset);
  }

  /// The same at stride 1, with strides as channels, for a filter that has its own order.
  static bool compute_apart(const ConvCase& c, std::uint64_t seed, cuda::WeightTile tile) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    cuda::RearrangedPlan plan;
    if (!cuda::plan_strides_as_channels(p.geometry, false, sizeof(T), plan)) return false;
    const cuda::WeightOrder order = cuda::weight_order(plan.filter);
    return order.kernel_h != 0 && compute_boxes(plan.geometry, apart(plan.image, p.image), p.feature, order,
                                                oracle::conv_weight(p.geometry, p.image, p.feature), seed, tile, 0);
  }

  static std::vector<double> apart(const cuda::Unshuffle& u, const std::vector<double>& image) {
    std::vector<double> to;
    for (std::int64_t plane = 0; plane < u.planes; ++plane) {
      for (std::int64_t i = 0; i < u.residues[0] * u.residues[1]; ++i) {
        for (std::int64_t j = 0; j < u.blocks[0] * u.blocks[1]; ++j) {
          const std::int64_t h = j / u.blocks[1] * u.stride[0] + i / u.residues[1] - u.padding[0],
                             w = j % u.blocks[1] * u.stride[1] + i % u.residues[1] - u.padding[1];
          const bool inside = h >= 0 && h < u.extents[0] && w >= 0 && w < u.extents[1];
          const std::int64_t at = (plane * u.extents[0] + h) * u.extents[1] + w;
          to.push_back(inside ? image[static_cast<std::size_t>(at)] : 0);
        }
      }
    }
    return to;
  }

  static bool compute_boxes(const ConvGeometry& g, const std::vector<double>& image_values,
                            const std::vector<double>& feature_values, const cuda::WeightOrder& order,
                            const std::vector<double>& expected, std::uint64_t seed, cuda::WeightTile tile,
                            std::size_t offset) {
    SCOPED_TRACE(::testing::Message() << "tile " << tile.rows << " x " << tile.columns << ", offset " << offset);
    cuda::WeightPlan plan;
    if (!cuda::plan_boxed_weight(g, M::kArithmetic, {}, plan, tile)) return false;
    if (seed % 2 == 0) {  // so that the ring of stages wraps around
      plan.splits = 1;
      plan.stages_per_split = plan.stages;
    }
    Operand<T> image(image_values, offset), feature(feature_values, 0);
    Operand<T> out(std::vector<double>(expected.size(), std::numeric_limits<double>::quiet_NaN()), 0);
    std::vector<float> partial(static_cast<std::size_t>(cuda::weight_workspace_bytes(plan) / 4));
    cuda::weight::BoxOperands operands{.image_maps = {},
                                       .feature_map = {},
                                       .image = image.data(),
                                       .feature = feature.data(),
                                       .partial = partial.data(),
                                       .aligned = offset * sizeof(T) % 16 == 0};
    if (operands.aligned) {
      for (std::int32_t residue = 0; residue < plan.residues; ++residue) {
        operands.image_maps[residue] =
            emulation::encode_tensor_map(cuda::weight_image_layout(plan, image.data(), M::kDType, M::kSplit, residue));
      }
      operands.feature_map =
          emulation::encode_tensor_map(cuda::weight_feature_layout(plan, feature.data(), M::kDType, M::kSplit));
    }
    const auto kernel = cuda::weight::select_tile<cuda::weight::BoxesFamily, M::kArithmetic>(plan);
    emulation::run({.grid = {static_cast<unsigned>(plan.blocks_per_split() * plan.splits)},
                    .block = {static_cast<unsigned>(cuda::weight::kBoxesThreads)},
                    .seed = seed,
                    .smem_bytes = static_cast<std::size_t>(cuda::wgmma_weight_smem_bytes(plan, M::kSplit))},
                   [&] { kernel(plan, operands); });
    add_splits(plan, seed, partial, out.data(), order);
    EXPECT_TRUE(out.surroundings_are_kept());
    expect_equal(out.data(), expected);
    return true;
  }

  static bool compute(const ConvCase& c, std::uint64_t seed) {
    SCOPED_TRACE(c);
    cuda::WeightPlan plan;
    if (!cuda::plan_weight(geometry(c), M::kArithmetic, {}, plan)) return false;
    compute(c, seed, plan, cuda::weight::select_kernel<M::kArithmetic>(plan), false);
    return true;
  }

  /// As a call runs: run(plan, problem) launches the kernel and the addition of splits.
  template <class Run>
  static void launch(const ConvCase& c, std::uint64_t seed, const cuda::WeightPlan& plan, const Run& run) {
    const ConvProblem p = integer_problem(geometry(c));
    Operand<T> image(p.image, seed % 9), feature(p.feature, seed % 5), out(nothing(std::ssize(p.filter)), 0);
    emulate_launches(seed);
    run(plan, cuda::ConvProblem{.role = cuda::ConvRole::kFilter,
                                .geometry = p.geometry,
                                .dtype = M::kDType,
                                .first = image.data(),
                                .second = feature.data(),
                                .out = out.data()});
    EXPECT_TRUE(out.surroundings_are_kept());
    expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
  }

  /// With the given tile, or the planner's choice if it has no rows.
  static bool compute_wgmma(const ConvCase& c, std::uint64_t seed, cuda::WeightTile tile) {
    SCOPED_TRACE(c);
    SCOPED_TRACE(::testing::Message() << "tile " << tile.rows << " x " << tile.columns);
    cuda::WeightPlan plan;
    if (!cuda::plan_wgmma_weight(geometry(c), M::kArithmetic, {}, plan, tile)) return false;
    if (seed % 2 == 0) {  // so that the ring of stages wraps around
      plan.splits = 1;
      plan.stages_per_split = plan.stages;
    }
    compute(c, seed, plan, cuda::weight::select_tile<cuda::weight::WgmmaFamily, M::kArithmetic>(plan), true);
    return true;
  }
};
TYPED_TEST_SUITE(WeightEmulation, Modes);

TYPED_TEST(WeightEmulation, RandomGeometriesAreExact) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases / 2; ++seed) taken += this->compute(random_case(seed), seed);
  EXPECT_GT(8 * taken, 3 * kRandomCases);
}

// Two cases, for the addition of splits has more threads there than the emulator has time for; others have fewer.
TYPED_TEST(WeightEmulation, LaunchesAreExact) {
  constexpr cuda::Arithmetic kArithmetic = TypeParam::kArithmetic;
  const ConvCase cases[] = {
      {.batch = 2, .in_channels = 24, .out_channels = 17, .input = {9, 16}, .kernel = {3, 3}, .padding = {1, 1}},
      {.batch = 3, .in_channels = 20, .out_channels = 9, .input = {1, 64}, .kernel = {1, 4}, .stride = {1, 2}}};
  for (const std::uint64_t seed : {0, 5}) {  // operands at multiples of 16 bytes, and not
    for (const ConvCase& c : cases) {
      SCOPED_TRACE(c);
      cuda::WeightPlan plan;
      ASSERT_TRUE(cuda::plan_weight(geometry(c), kArithmetic, {}, plan));
      this->launch(c, seed, plan, cuda::run_weight<kArithmetic>);
      ASSERT_TRUE(cuda::plan_wgmma_weight(geometry(c), kArithmetic, {}, plan));
      this->launch(c, seed, plan, cuda::run_wgmma_weight<kArithmetic>);
      if (!cuda::plan_boxed_weight(geometry(c), kArithmetic, {}, plan)) continue;
      this->launch(c, seed, plan, [](const cuda::WeightPlan& boxes, const cuda::ConvProblem& problem) {
        cuda::run_boxes_weight<kArithmetic>(boxes, problem, {});
      });
    }
  }
}

TYPED_TEST(WeightEmulation, WgmmaIsExactOnRandomGeometries) {
  std::uint64_t taken = 0;
  for (std::uint64_t seed = 0; seed < kRandomCases; ++seed) taken += this->compute_wgmma(random_case(seed), seed, {});
  EXPECT_GT(4 * taken, 3 * kRandomCases);
}

TYPED_TEST(WeightEmulation, WgmmaIsExactInEveryTile) {
  for (const cuda::WeightTile tile : cuda::kWgmmaWeightTiles) {
    if (TypeParam::kSplit && !cuda::wgmma_weight_splits(tile)) continue;
    for (std::uint64_t seed = 20; seed < 22; ++seed) EXPECT_TRUE(this->compute_wgmma(random_case(seed), seed, tile));
  }
}

TYPED_TEST(WeightEmulation, WgmmaIsExactAtAnyStrideAndAlignment) {
  for (const std::int64_t stride : {1, 2, 3, 4, 8}) {
    for (const std::uint64_t offset : {0, 2, 4, 1}) {  // of the image; both operands' rows are a multiple of 16 bytes
      EXPECT_TRUE(this->compute_wgmma({.name = "stride" + std::to_string(stride),
                                       .batch = 2,
                                       .in_channels = 9,
                                       .out_channels = 10,
                                       .input = {2, 48},
                                       .kernel = {2, 2 * stride},
                                       .stride = {1, stride},
                                       .padding = {0, stride / 2}},
                                      offset, {}));
    }
  }
}

/// Rows of both operands begin at multiples of 16 bytes.
ConvCase aligned_line(std::int64_t stride) {
  return {.name = "stride" + std::to_string(stride),
          .batch = 2,
          .in_channels = 9,
          .out_channels = 10,
          .input = {2, 64},
          .kernel = {2, stride == 1 ? 3 : 2 * stride},
          .stride = {1, stride},
          .padding = {0, (stride + 1) / 2},
          .output_padding = {0, stride == 1 ? 0 : stride % 2}};
}
/// Rows of the image begin at multiples of 16 bytes every other time, of halves every fourth time.
const ConvCase kShiftedRows{
    .name = "shifted_rows", .batch = 2, .in_channels = 12, .out_channels = 40, .input = {1, 64}, .kernel = {1, 3}};
const ConvCase kSmallPlanes{.name = "small_planes",
                            .batch = 3,
                            .in_channels = 20,
                            .out_channels = 12,
                            .groups = 2,
                            .input = {8, 8},
                            .kernel = {4, 4},
                            .stride = {2, 2},
                            .padding = {1, 1}};

TYPED_TEST(WeightEmulation, BoxesAreExactAtAnyStrideAndAlignment) {
  for (const std::int64_t stride : {1, 2, 3, 4, 8}) {
    for (const std::size_t offset : {0, 1}) {
      EXPECT_TRUE(this->compute_boxes(aligned_line(stride), offset + 2, {}, offset));
    }
  }
  EXPECT_TRUE(this->compute_boxes(kSmallPlanes, 2, {}, 0));
  EXPECT_TRUE(this->compute_boxes(kSmallPlanes, 3, {}, 3));
  EXPECT_TRUE(this->compute_boxes(kShiftedRows, 2, {}, 0));
  EXPECT_TRUE(this->compute_boxes(kShiftedRows, 3, {}, 1));
}

TYPED_TEST(WeightEmulation, BoxesWriteTapsInTheirOrder) {
  for (const Extent2 kernel : {Extent2{4, 4}, Extent2{5, 3}, Extent2{1, 7}}) {
    ConvCase c{.batch = 1,
               .in_channels = 6,
               .out_channels = 10,
               .groups = 2,
               .input = {3, 64},
               .kernel = kernel,
               .stride = {2, 2},
               .padding = {0, 1}};
    EXPECT_TRUE(this->compute_apart(c, 2, {}));
    c.stride = {1, 3};
    EXPECT_TRUE(this->compute_apart(c, 3, {}));
  }
}

TYPED_TEST(WeightEmulation, BoxesAreExactInEveryTile) {
  for (const cuda::WeightTile tile : cuda::kWgmmaWeightTiles) {
    if (TypeParam::kSplit && !cuda::wgmma_weight_splits(tile)) continue;
    EXPECT_TRUE(this->compute_boxes(kSmallPlanes, 4, tile, 0));
    EXPECT_TRUE(this->compute_boxes(aligned_line(1), 5, tile, 0));
  }
}

TYPED_TEST(WeightEmulation, WgmmaIsExactWithFewImageChannels) {
  EXPECT_TRUE(this->compute_wgmma({.name = "few_channels",
                                   .batch = 2,
                                   .in_channels = 10,
                                   .out_channels = 2,
                                   .input = {9, 30},
                                   .kernel = {9, 9},
                                   .stride = {3, 3},
                                   .padding = {4, 4},
                                   .output_padding = {2, 2}},
                                  1, {}));
}

// Loaders copy many channels in turn, and blocks of features that are whole without asking.
TYPED_TEST(WeightEmulation, WgmmaIsExactWithManyChannels) {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::uint64_t offset : {0, 2, 1}) {
      EXPECT_TRUE(this->compute_wgmma({.name = "many_channels",
                                       .batch = 2,
                                       .in_channels = 140,
                                       .out_channels = 75,
                                       .input = {3, 24},
                                       .kernel = {1, 3},
                                       .stride = {1, stride},
                                       .padding = {0, 1}},
                                      offset, {}));
    }
  }
}

TYPED_TEST(WeightEmulation, WgmmaIsExactOnLongSums) {
  for (const cuda::WeightTile tile : {cuda::WeightTile{128, 64}, cuda::WeightTile{384, 16}}) {
    EXPECT_TRUE(this->compute_wgmma(
        {.name = "long_sums", .in_channels = 3, .out_channels = 5, .input = {1, 10000}, .kernel = {1, 3}}, 2, tile));
  }
}

}  // namespace
}  // namespace adjoint::testing
