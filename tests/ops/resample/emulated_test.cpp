// Resampling by tiles on the emulator against sums over the whole matrices.
#include <cuda_runtime.h>
#include <adjoint/ops/resample/tiles.cuh>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace adjoint::testing {
namespace {

using cuda::resampling::Axis;
using cuda::resampling::kMostUnrolled;
using cuda::resampling::kThreads;

/// A band's memory. Weights are aligned like those of a workspace.
template <class C>
struct Table {
  Table(std::int64_t rows, std::int64_t most)
      : stride((most + kMostUnrolled - 1) / kMostUnrolled * kMostUnrolled),
        integers(static_cast<std::size_t>(2 * rows), -1),
        weights(static_cast<std::size_t>(rows * stride / kMostUnrolled)) {
    band = {static_cast<std::int32_t>(rows), static_cast<std::int32_t>(stride), integers.data(), integers.data() + rows,
            weights.data()->values};
  }
  std::int64_t stride;
  std::vector<std::int32_t> integers;
  std::vector<cuda::Pack<C, kMostUnrolled>> weights;
  cuda::resampling::Band<C> band;
};

/// The axis's whole matrix (outputs, inputs).
std::vector<std::vector<double>> matrix(const ResampleAttr& attr) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t o = 0; o < attr.out_extent; ++o) {
    std::vector<double>& row = rows.emplace_back(static_cast<std::size_t>(attr.in_extent), 0.0);
    const band::Run run = band::run_of(attr, o);
    std::vector<double> weights(static_cast<std::size_t>(band::max_taps(attr)));
    band::weights_of(attr, o, weights.data());
    std::copy_n(weights.begin(), run.end - run.start, row.begin() + run.start);
  }
  return rows;
}

/// The tiles are those of `many` planes. `result`: two planes.
template <class T, int kTaps>
void check(const PlaneAttr& attr, bool transposed, std::uint64_t seed, std::int64_t many = 2,
           std::vector<double>* result = nullptr) {
  using C = compute_t<T>;
  const auto from = [&](const ResampleAttr& axis) { return transposed ? axis.out_extent : axis.in_extent; };
  const auto to = [&](const ResampleAttr& axis) { return transposed ? axis.in_extent : axis.out_extent; };
  const std::int64_t planes = 2, from_plane = from(attr.h) * from(attr.w), to_plane = to(attr.h) * to(attr.w);

  cuda::resampling::Tiling tiling;
  ASSERT_TRUE(cuda::resampling::plan_tiles(attr.h, attr.w, transposed, sizeof(T), many, tiling));
  using cuda::resampling::most_columns;
  Table<C> h_out(attr.h.out_extent, most_columns(attr.h, false)), w_out(attr.w.out_extent, most_columns(attr.w, false));
  Table<C> h_in(attr.h.in_extent, most_columns(attr.h, true)), w_in(attr.w.in_extent, most_columns(attr.w, true));
  const Axis<C> h{attr.h, h_out.band, h_in.band}, w{attr.w, w_out.band, w_in.band};
  const auto tabulate = [&](std::int64_t most, const auto& kernel) {
    emulation::run({.grid = {static_cast<unsigned>((most - 1) / kThreads + 1), 2}, .block = {kThreads}, .seed = seed},
                   [&] { kernel(h, w); });
  };
  tabulate(std::max(attr.h.out_extent, attr.w.out_extent), cuda::resampling::tabulate_outputs<C>);
  tabulate(std::max(attr.h.in_extent, attr.w.in_extent), cuda::resampling::tabulate_inputs<C>);
  for (const Table<C>* table : {&h_in, &w_in}) {
    for (std::int64_t i = 0; i < table->band.rows; ++i) ASSERT_LE(table->band.count[i], table->stride);
  }

  std::mt19937_64 random(seed);
  std::vector<T> in(static_cast<std::size_t>(planes * from_plane));
  for (T& value : in) value = convert<T>(static_cast<float>(random() % 17) - 8.0F);
  constexpr std::size_t kPack = cuda::resampling::kPack;
  std::vector<cuda::Pack<T, kPack>> memory(static_cast<std::size_t>(planes * to_plane) / kPack + 2);
  T* const out = memory.data()->values;
  for (std::size_t i = 0; i < memory.size() * kPack; ++i) out[i] = convert<T>(99.0F);
  tiling.packs = tiling.to_width % static_cast<std::int32_t>(kPack) == 0;
  const auto tiles = static_cast<unsigned>(planes * tiling.across.divisor() * tiling.down.divisor());
  emulation::run({.grid = {tiles}, .block = {kThreads}, .seed = seed, .smem_bytes = tiling.smem_bytes}, [&] {
    cuda::resampling::resample_tiles<T, kTaps>(tiling, transposed ? h.inputs : h.outputs,
                                               transposed ? w.inputs : w.outputs, in.data(), out);
  });

  const auto rows = matrix(attr.h), columns = matrix(attr.w);
  const double tolerance = std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 1e-4 : 0.2;
  const auto weight = [&](const auto& all, std::int64_t a, std::int64_t b) {
    return transposed ? all[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)]
                      : all[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  };
  for (std::int64_t i = 0; i < planes * to_plane; ++i) {
    const std::int64_t y = i % to_plane / to(attr.w), x = i % to(attr.w);
    double sum = 0.0;
    for (std::int64_t a = 0; a < from(attr.h); ++a) {
      const double by_row = weight(rows, y, a);
      if (by_row == 0.0) continue;
      for (std::int64_t b = 0; b < from(attr.w); ++b) {
        const auto at = static_cast<std::size_t>(i / to_plane * from_plane + a * from(attr.w) + b);
        sum += by_row * weight(columns, x, b) * static_cast<double>(convert<C>(in[at]));
      }
    }
    const auto got = static_cast<double>(convert<C>(out[i]));
    ASSERT_NEAR(got, sum, tolerance) << "element " << i;
    if (result != nullptr) result->push_back(got);
  }
  for (auto i = static_cast<std::size_t>(planes * to_plane); i < memory.size() * kPack; ++i) {
    ASSERT_EQ(convert<C>(out[i]), C(99)) << "behind the result";
  }
}

ResampleAttr axis(int which, std::int64_t in, std::int64_t out, Filter filter, int variant) {
  ResampleAttr attr{.axis = which, .in_extent = in, .out_extent = out, .filter = filter};
  const bool filters = filter == Filter::kLinear || filter == Filter::kCubic;
  attr.align_corners = filters && variant == 1;
  attr.antialias = filters && variant == 2;
  attr.ratio = attr.align_corners ? out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0
                                  : static_cast<double>(in) / static_cast<double>(out);
  return attr;
}

TEST(ResampleTiles, AreTheMatricesAndTheirTransposes) {
  const std::int64_t extents[][4] = {{40, 33, 80, 66}, {1, 70, 1, 140},  {9, 20, 5, 7}, {70, 5, 3, 12}, {1, 1, 9, 11},
                                     {12, 12, 12, 36}, {50, 64, 25, 32}, {7, 9, 1, 1},  {90, 4, 180, 8}};
  std::uint64_t seed = 1;
  for (const auto& e : extents) {
    for (const Filter filter : {Filter::kNearest, Filter::kNearestExact, Filter::kLinear, Filter::kCubic}) {
      for (const int variant : {0, 1, 2}) {
        if (variant > 0 && filter < Filter::kLinear) continue;
        const PlaneAttr attr{axis(-2, e[0], e[2], filter, variant), axis(-1, e[1], e[3], filter, variant)};
        for (const bool transposed : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << "(" << e[0] << ", " << e[1] << ") -> (" << e[2] << ", " << e[3] << ") filter "
                       << static_cast<int>(filter) << " variant " << variant << (transposed ? " transposed" : ""));
          check<float, 1>(attr, transposed, ++seed);
          check<float, 2>(attr, transposed, ++seed);
          check<double, 4>(attr, transposed, ++seed);
          // However many planes there are, their bits are the same.
          std::vector<double> few, many;
          check<bfloat16, 8>(attr, transposed, ++seed, 2, &few);
          check<bfloat16, 8>(attr, transposed, seed, 1 << 16, &many);
          EXPECT_EQ(few, many);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(ResampleTiles, AreTallOf16BitsWhereThereAreMany) {
  const PlaneAttr twice{axis(-2, 256, 512, Filter::kLinear, 0), axis(-1, 256, 512, Filter::kLinear, 0)};
  const PlaneAttr half{axis(-2, 256, 128, Filter::kLinear, 0), axis(-1, 256, 128, Filter::kLinear, 0)};
  const auto height = [](const PlaneAttr& attr, std::size_t element, std::int64_t planes) {
    cuda::resampling::Tiling tiling;
    EXPECT_TRUE(cuda::resampling::plan_tiles(attr.h, attr.w, false, element, planes, tiling));
    EXPECT_LE(tiling.smem_bytes, static_cast<std::size_t>(cuda::resampling::kSharedBytes));
    return tiling.height;
  };
  EXPECT_EQ(height(twice, 2, 1024), 128);
  EXPECT_EQ(height(twice, 2, 64), 64);
  EXPECT_EQ(height(twice, 2, 3), 32);
  EXPECT_EQ(height(twice, 4, 1024), 32);
  EXPECT_EQ(height(twice, 8, 1024), 32);
  EXPECT_EQ(height(half, 2, 4096), 64);  // whose 128 rows need more than shared memory holds
}

}  // namespace
}  // namespace adjoint::testing
