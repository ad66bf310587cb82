// The pipeline's kernels on the emulator: exact on small integers by every plan and in any order of execution.
#include <adjoint/ops/conv/base/least_clocks.h>
#include <adjoint/ops/conv/pipeline/plan.h>
#include <adjoint/tests/ops/conv/pipeline/cases.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <adjoint/tests/support/emulation/tensor_map.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/pipeline/cuda/launch.cuh>
#include <adjoint/ops/conv/pipeline/cuda/order_filter.cuh>
#include <adjoint/ops/conv/pipeline/cuda/pad_channels.cuh>
#include <adjoint/ops/conv/pipeline/cuda/unfold_channels.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::testing {
namespace {

/// The parts of the kernel that the cases have reached.
using Reached = std::set<std::string>;

/// By a plan of the problem.
template <class M>
void check(const ConvProblem& p, const cuda::PipelinePlan& plan, const cuda::PipelineGeometry& geometry,
           const Activation& activation, std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  const ConvGeometry& g = p.geometry;
  const bool transposed = geometry.transposed;
  const Expected expected = expected_results(p, transposed, activation);
  const auto positions = [](const cuda::PipelineAxes& e) { return e[1] * e[2] * e[3]; };
  const std::int64_t results = positions(geometry.result);
  Operand<T> source(channels_last(transposed ? p.feature : p.image, geometry.source_channels,
                                  positions(geometry.source)),
                    0);
  Operand<T> filter(transposed ? first_last(p.filter, geometry.source_channels, g.taps())
                               : channels_last(p.filter, geometry.source_channels, g.taps()),
                    0);
  const std::vector<double>& bias = transposed ? p.image_bias : p.feature_bias;
  Operand<T> biases(bias, 0);
  Operand<T> out(std::vector<double>(expected.results.size(), std::numeric_limits<double>::quiet_NaN()), 0);
  Operand<T> results_innermost(channels_last(p.filter, geometry.result_channels, g.taps()), 0);
  emulate_launches(seed);
  cuda::PipelineCall call{.source = source.data(),
                          .filter = filter.data(),
                          .bias = bias.empty() ? nullptr : biases.data(),
                          .result = out.data(),
                          .activation = activation};
  if (transposed && sizeof(T) == 2 && seed % 2 == 0) {
    call.filter = results_innermost.data();
    call.results_innermost = true;
    reached.insert("results innermost");
  }
  cuda::run_pipeline_in<M::kArithmetic>(plan, call, 0);
  expect_equal(out.data(), channels_last(expected.results, geometry.result_channels, results));
  EXPECT_TRUE(out.surroundings_are_kept());
  reached.insert("columns " + std::to_string(plan.columns));
  reached.insert(plan.shares_filter ? "one filter" : "two filters");
  if (plan.boxes > 1) reached.insert("boxes");
  if (plan.chunks > 1) reached.insert("chunks");
  if (plan.lead > 0) reached.insert("lead");
  if (plan.slices > 1) reached.insert("slices " + std::to_string(plan.slices));
  if (plan.result.phases() > 1) reached.insert("phases");
  if (plan.skips) reached.insert("skips");
  if (plan.result.pitch[3] != 1) reached.insert("another order of axes");
  if (!activation.is_none()) reached.insert("activation");
}

template <class M>
class PipelineEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(PipelineEmulation, ProductModes);

TYPED_TEST(PipelineEmulation, EveryFormIsExact) {
  Reached reached;
  std::uint64_t seed = 0;
  for (const ConvCase& c : kPipelineCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const bool transposed : {false, true}) {
      const Activation activation = ++seed % 3 == 1 ? kReLU : Activation{};
      const cuda::PipelineGeometry g = cuda::pipeline_geometry(p.geometry, transposed);
      SCOPED_TRACE(transposed ? "conv_transpose" : "conv");
      double clocks = cuda::PlansAbove::kAnew;
      for (int plans = 0;; ++plans) {
        const cuda::PlansAbove above(clocks);
        cuda::PipelinePlan plan;
        const bool found = cuda::plan_pipeline(g, TypeParam::kArithmetic, {}, plan);
        ASSERT_TRUE(found || plans > 0);
        if (!found) break;
        clocks = cuda::pipeline_clocks(plan, {});
        // Every other one, because the emulator needs a quarter of a second a plan.
        if (static_cast<std::uint64_t>(plans) % 2 != seed % 2) continue;
        check<TypeParam>(p, plan, g, activation, seed + static_cast<std::uint64_t>(plans), reached);
      }
    }
  }
  Reached all{"columns 128",
              "columns 64",
              "one filter",
              "two filters",
              "boxes",
              "chunks",
              "lead",
              "slices 2",
              "slices 4",
              "phases",
              "activation",
              "skips",
              "another order of axes"};
  if (sizeof(typename TypeParam::Element) == 2) all.insert("results innermost");
  EXPECT_EQ(reached, all);
}

/// Sources of a few channels: by conv and, of stride 1, by conv_transpose, with filters in both formats.
TYPED_TEST(PipelineEmulation, FewSourcesAreExact) {
  using T = typename TypeParam::Element;
  const ConvCase kCases[] = {
      {.name = "three",
       .batch = 2,
       .in_channels = 3,
       .out_channels = 70,
       .input = {7, 9},
       .kernel = {3, 3},
       .padding = {1, 1}},
      {.name = "picture", .batch = 1, .in_channels = 70, .out_channels = 3, .input = {9, 8}, .kernel = {3, 3}},
      {.name = "odd",
       .batch = 1,
       .in_channels = 1,
       .out_channels = 5,
       .input = {6, 40},
       .kernel = {5, 5},
       .padding = {2, 2}},
      {.name = "stride",
       .batch = 3,
       .in_channels = 64,
       .out_channels = 3,
       .input = {5, 4},
       .kernel = {4, 3},
       .stride = {2, 3},
       .padding = {1, 0},
       .dilation = {1, 2}},
      {.name = "dilation",
       .batch = 1,
       .in_channels = 2,
       .out_channels = 3,
       .input = {9, 8},
       .kernel = {3, 2},
       .padding = {2, 1},
       .dilation = {2, 3}}};
  constexpr std::int64_t kMostChannels = 5;
  std::uint64_t seed = 0;
  for (const ConvCase& c : kCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const ConvGeometry& g = p.geometry;
    for (const bool transposed : {false, true}) {
      if ((transposed ? g.feature_channels : g.image_channels) > kMostChannels) continue;
      for (const bool filter_is_last : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "transposed " << transposed << ", channels_last " << filter_is_last);
        cuda::FewSourcesPlan plan;
        ASSERT_TRUE(cuda::plan_few_sources(g, transposed, filter_is_last, TypeParam::kArithmetic, plan));
        const auto positions = [](const Extents& e) { return e.product(); };
        const Expected expected = expected_results(p, transposed, kReLU);
        const std::vector<double>& bias = transposed ? p.image_bias : p.feature_bias;
        Operand<T> source(transposed ? channels_last(p.feature, g.feature_channels, positions(g.feature))
                                     : channels_last(p.image, g.image_channels, positions(g.image)),
                          0),
            filter(filter_is_last ? channels_last(p.filter, g.image_channels, g.taps()) : p.filter, 0), biases(bias, 0),
            out(std::vector<double>(expected.results.size(), std::nan("")), 0);
        emulate_launches(++seed);
        cuda::run_few_sources_in<TypeParam::kArithmetic>(plan,
                                                         {.source = source.data(),
                                                          .filter = filter.data(),
                                                          .bias = bias.empty() ? nullptr : biases.data(),
                                                          .result = out.data(),
                                                          .activation = kReLU},
                                                         0);
        expect_equal(out.data(), channels_last(expected.results, transposed ? g.image_channels : g.feature_channels,
                                               positions(transposed ? g.image : g.feature)));
        EXPECT_TRUE(out.surroundings_are_kept());
      }
    }
  }
}

/// Volumes of a few channels: the unfolded image times the filter's rows, which follow each other in both formats.
TYPED_TEST(PipelineEmulation, UnfoldedVolumesAreExact) {
  using T = typename TypeParam::Element;
  using Unit = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  constexpr std::int64_t kVector = 16 / sizeof(T);
  const ConvCase kCases[] = {{.name = "one",
                              .rank = 3,
                              .in_channels = 8,
                              .out_channels = 1,
                              .input = {3, 5, 9},
                              .kernel = {4, 4, 4},
                              .stride = {2, 2, 2},
                              .padding = {1, 1, 1}},
                             {.name = "two",
                              .rank = 3,
                              .batch = 1,
                              .in_channels = 16,
                              .out_channels = 2,
                              .input = {4, 3, 6},
                              .kernel = {3, 2, 5},
                              .padding = {1, 0, 2},
                              .dilation = {1, 2, 1}},
                             {.name = "three",
                              .rank = 3,
                              .in_channels = 24,
                              .out_channels = 3,
                              .input = {2, 5, 3},
                              .kernel = {1, 3, 2},
                              .stride = {1, 3, 2},
                              .padding = {0, 2, 1},
                              .output_padding = {0, 2, 1},
                              .dilation = {1, 1, 3}}};
  std::uint64_t seed = 0;
  for (const ConvCase& c : kCases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    const ConvGeometry& g = p.geometry;
    const std::vector<double> expected =
        channels_last(expected_results(p, false, {}).results, g.feature_channels, g.feature_plane());
    const std::int64_t channels = g.image_channels * g.taps(), padded = (channels + kVector - 1) / kVector * kVector;
    ConvGeometry pointwise = g;
    pointwise.image_channels = padded;
    pointwise.image = g.feature;
    pointwise.kernel = pointwise.stride = pointwise.dilation = {};
    pointwise.padding = {};
    cuda::PipelinePlan plan;
    ASSERT_TRUE(cuda::plan_pipeline(cuda::pipeline_geometry(pointwise, false), TypeParam::kArithmetic, {}, plan));
    Operand<T> image(channels_last(p.image, g.image_channels, g.image_plane()), 1), biases(p.feature_bias, 0);
    for (const bool taps_are_inner : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "taps are inner " << taps_are_inner);
      const auto nothing = [](std::int64_t count) {
        return std::vector<double>(static_cast<std::size_t>(count), std::nan(""));
      };
      Operand<T> unfolded(nothing(g.batch * g.feature_plane() * padded), 0), out(nothing(std::ssize(expected)), 0);
      const cuda::pipeline::Unfold unfold = cuda::pipeline::unfold_of(g, taps_are_inner, kVector);
      const auto threads = static_cast<unsigned>(cuda::pipeline::kUnfoldThreads);
      emulation::run(
          {.grid = {static_cast<unsigned>(unfold.threads() / threads + 1)}, .block = {threads}, .seed = seed}, [&] {
            cuda::pipeline::unfold_channels_kernel<Unit>(unfold, reinterpret_cast<const Unit*>(image.data()),
                                                         reinterpret_cast<Unit*>(unfolded.data()));
          });
      EXPECT_TRUE(unfolded.surroundings_are_kept());
      // Behind a row's channels the filter is not zero, but the image is.
      std::vector<double> rows(static_cast<std::size_t>(g.feature_channels * padded), 1);
      const std::vector<double> filter =
          taps_are_inner ? p.filter : channels_last(p.filter, g.image_channels, g.taps());
      for (std::int64_t f = 0; f < g.feature_channels; ++f) {
        std::copy_n(filter.begin() + f * channels, channels, rows.begin() + f * padded);
      }
      Operand<T> filters(rows, 0);
      emulate_launches(++seed);
      cuda::run_pipeline_in<TypeParam::kArithmetic>(
          plan, {.source = unfolded.data(), .filter = filters.data(), .bias = biases.data(), .result = out.data()}, 0);
      expect_equal(out.data(), expected);
    }
  }
}

template <class Unit>
void expect_ordered(std::int64_t first, std::int64_t second, std::int32_t taps, bool transposed, bool is_last) {
  SCOPED_TRACE(::testing::Message() << first << ", " << second << ", " << taps << ", transposed " << transposed
                                    << ", channels_last " << is_last);
  constexpr std::int64_t kMultiple = 16 / sizeof(Unit);
  const cuda::pipeline::FilterOrder order =
      cuda::pipeline::filter_order(first, second, taps, transposed, is_last, kMultiple);
  EXPECT_LE(order.smem_bytes(sizeof(Unit)), 48 << 10);
  std::vector<Unit> from(static_cast<std::size_t>(first * second * taps));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Unit>(i * 7 + 1);
  std::vector<Unit> to(static_cast<std::size_t>(order.results * order.channels * taps), Unit{9}), expected(to.size());
  for (std::int64_t f = 0; f < first; ++f) {
    for (std::int64_t s = 0; s < second; ++s) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t result = transposed ? s : f, channel = transposed ? f : s;
        expected[static_cast<std::size_t>((result * taps + tap) * order.channels + channel)] =
            from[static_cast<std::size_t>(is_last ? (f * taps + tap) * second + s : (f * second + s) * taps + tap)];
      }
    }
  }
  emulation::run({.grid = {static_cast<unsigned>(order.blocks())},
                  .block = {static_cast<unsigned>(cuda::pipeline::kOrderThreads)},
                  .seed = 3,
                  .smem_bytes = static_cast<std::size_t>(order.smem_bytes(sizeof(Unit)))},
                 [&] {
                   if (order.reads_vectors(from.data(), sizeof(Unit))) {
                     cuda::pipeline::order_filter_kernel<Unit, cuda::pipeline::kOrderVector>(order, from.data(),
                                                                                             to.data());
                   } else {
                     cuda::pipeline::order_filter_kernel<Unit, 1>(order, from.data(), to.data());
                   }
                 });
  EXPECT_EQ(to, expected);
}

TEST(PipelineEmulation, FiltersAreOrdered) {
  for (const int way : {0, 1, 2, 3}) {
    const bool transposed = way % 2 != 0, is_last = way >= 2;
    expect_ordered<std::uint16_t>(40, 72, 9, transposed, is_last);
    expect_ordered<std::uint32_t>(36, 20, 1, transposed, is_last);
    expect_ordered<std::uint16_t>(8, 8, 128, transposed, is_last);
    expect_ordered<std::uint32_t>(12, 68, 49, transposed, is_last);
    expect_ordered<std::uint16_t>(3, 67, 4, transposed, is_last);
  }
}

TEST(PipelineEmulation, ChannelsArePaddedAndCropped) {
  using Unit = std::uint16_t;
  constexpr std::int64_t kRows = 70;
  for (const std::int64_t channels : {1, 3, 8, 37}) {
    const std::int64_t vectors = (channels + 7) / 8;
    std::vector<Unit> from(static_cast<std::size_t>(kRows * channels)), back(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Unit>(i + 1);
    Operand<float> padded(std::vector<double>(static_cast<std::size_t>(kRows * vectors * 4), 5), 0);
    auto* const units = reinterpret_cast<Unit*>(padded.data());
    const auto run = [&](const auto& kernel) {
      const auto blocks = static_cast<unsigned>((kRows * vectors + 255) / 256);
      emulation::run({.grid = {blocks}, .block = {static_cast<unsigned>(cuda::pipeline::kPadThreads)}, .seed = 4},
                     kernel);
    };
    const auto count = static_cast<int>(channels), rows_vectors = static_cast<int>(vectors);
    run([&] { cuda::pipeline::pad_channels_kernel<Unit>(kRows, count, rows_vectors, from.data(), units); });
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t c = channels; c < vectors * 8; ++c) EXPECT_EQ(units[row * vectors * 8 + c], 0);
    }
    run([&] { cuda::pipeline::crop_channels_kernel<Unit>(kRows, count, rows_vectors, units, back.data()); });
    EXPECT_EQ(back, from);
    EXPECT_TRUE(padded.surroundings_are_kept());
  }
}

// For float32 operands that are not tf32 numbers, the nearest one is multiplied, the even one if two are equally near.
TEST(PipelineEmulation, OperandsAreRoundedToEven) {
  cuda::PipelinePlan plan;
  const ConvGeometry g = geometry({.batch = 1, .in_channels = 4, .out_channels = 4, .input = {1, 8}});
  ASSERT_TRUE(cuda::plan_pipeline(cuda::pipeline_geometry(g, false), cuda::Arithmetic::kTF32, {}, plan));
  constexpr float kHalf = 0x1p-11F, kUnit = 0x1p-10F;  // half of, and the whole, distance of tf32 numbers at 1
  const float values[8] = {1, 1 + kHalf, 1 + kUnit + kHalf, 1 + kHalf * 1.5F, 1 - kHalf, -1 - kHalf, 1 + kUnit, 0};
  const float expected[8] = {1, 1, 1 + 2 * kUnit, 1 + kUnit, 1 - kHalf, -1, 1 + kUnit, 0};
  std::vector<double> source(32, 0), filter(16, 0);
  for (std::size_t i = 0; i < 8; ++i) source[4 * i] = values[i];
  filter[0] = 1 + kHalf;
  filter[4] = 1 + kUnit + kHalf;
  Operand<float> sources(source, 0), filters(filter, 0), out(std::vector<double>(32, std::nan("")), 0);
  emulate_launches(2);
  cuda::run_pipeline_in<cuda::Arithmetic::kTF32>(
      plan, {.source = sources.data(), .filter = filters.data(), .bias = nullptr, .result = out.data()}, 0);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(out.data()[4 * i], expected[i]) << i;
    EXPECT_EQ(out.data()[4 * i + 1], expected[i] * (1 + 2 * kUnit)) << i;
  }
}

}  // namespace
}  // namespace adjoint::testing
