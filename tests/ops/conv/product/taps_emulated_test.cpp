// conv_weight tap by tap on the emulator, copies and all: exact on small integers at any address, with and without
// slices.
#include <adjoint/ops/conv/base/machine.h>
#include <adjoint/ops/conv/product/taps.h>
#include <adjoint/ops/conv/sums/cuda/taps.h>
#include <adjoint/tests/ops/conv/layouts/samples_last_emulated_run.h>
#include <adjoint/tests/support/emulation/kernel_run.h>
#include <cuda_runtime.h>
#include <adjoint/ops/conv/product/cuda/launch.cuh>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace adjoint::testing {
namespace {

using Reached = std::set<std::string>;

template <class M>
void check(const ConvProblem& p, const cuda::Machine& machine, std::uint64_t seed, Reached& reached) {
  using T = typename M::Element;
  cuda::TapwisePlan plan;
  ASSERT_TRUE(cuda::plan_tapwise(p.geometry, M::kArithmetic, machine, plan));
  Operand<T> image = samples_last<T>(plan.image, p.image, seed),
             feature = samples_last<T>(plan.feature, p.feature, seed + 1);
  const std::int64_t count = plan.gather.count * p.geometry.taps();
  Operand<T> results(nothing(count), 0), out(nothing(count), seed % 3 == 0 ? 0 : seed % 5);
  Operand<float> sums(nothing(plan.product.partial_bytes() / 4), 0);
  const bool sliced = plan.product.slices > 1;
  const cuda::ConvProblem problem{.role = cuda::ConvRole::kFilter,
                                  .geometry = p.geometry,
                                  .dtype = M::kDType,
                                  .precision = Precision::kTF32,
                                  .device = 0,
                                  .out = results.data(),
                                  .read_again = true};
  emulate_launches(seed, sliced ? 200 : 0);
  cuda::run_product_in<M::kArithmetic>(plan.product, problem, feature.data(), image.data(),
                                       sliced ? sums.data() : nullptr);
  cuda::gather_taps(plan.gather, M::kDType, sliced ? static_cast<void*>(sums.data()) : results.data(), out.data(), 0);
  expect_equal(out.data(), oracle::conv_weight(p.geometry, p.image, p.feature));
  EXPECT_TRUE(out.surroundings_are_kept());
  reached.insert(sliced ? "slices" : "one slice");
  reached.insert(plan.gather.vector == 1 ? "reads elements" : "reads vectors");
  reached.insert(reinterpret_cast<std::uintptr_t>(out.data()) % 16 == 0 ? "writes vectors" : "writes elements");
  if (plan.gather.count > plan.gather.run) reached.insert("runs");
}

template <class M>
class TapwiseEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(TapwiseEmulation, ProductModes);

TYPED_TEST(TapwiseEmulation, EveryFormIsExact) {
  Reached reached;
  const ConvCase cases[] = {
      {.name = "stride2",
       .batch = 16,
       .in_channels = 72,
       .out_channels = 24,
       .input = {3, 4},
       .kernel = {5, 5},
       .stride = {2, 2},
       .padding = {2, 2},
       .output_padding = {1, 1}},
      {.name = "stride1",
       .batch = 15,
       .in_channels = 9,
       .out_channels = 70,
       .input = {4, 4},
       .kernel = {3, 3},
       .padding = {1, 1},
       .dilation = {1, 2}},
      {.name = "rows", .batch = 64, .in_channels = 16, .out_channels = 8, .input = {1, 3}, .kernel = {1, 4}},
      {.name = "one_stride",
       .batch = 32,
       .in_channels = 130,
       .out_channels = 140,
       .input = {5, 2},
       .kernel = {3, 2},
       .stride = {3, 1},
       .padding = {1, 1}},
      {.name = "far",
       .batch = 32,
       .in_channels = 8,
       .out_channels = 8,
       .input = {2, 4},
       .kernel = {2, 2},
       .padding = {4, 5},
       .dilation = {9, 11}},
      {.name = "deep", .batch = 64, .in_channels = 8, .out_channels = 8, .input = {8, 8}, .kernel = {1, 2}},
      {.name = "opening", .batch = 64, .in_channels = 40, .out_channels = 16, .kernel = {4, 4}},
  };
  std::uint64_t seed = 0;
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c);
    const ConvProblem p = integer_problem(geometry(c));
    for (const int multiprocessors : {1, 132}) {
      check<TypeParam>(p, {.multiprocessors = multiprocessors}, seed++, reached);
    }
  }
  const Reached all{"slices",          "one slice", "reads elements", "reads vectors", "writes vectors",
                    "writes elements", "runs"};
  EXPECT_EQ(reached, all);
}

TEST(TapwisePlan, IsForWholeBlocksOfSamples) {
  cuda::TapwisePlan plan;
  const auto takes = [&](const ConvCase& c) {
    return cuda::plan_tapwise(geometry(c), cuda::Arithmetic::kBFloat16, {}, plan);
  };
  const ConvCase fits{.batch = 64, .in_channels = 8, .out_channels = 8, .input = {4, 4}, .kernel = {3, 3}};
  EXPECT_TRUE(takes(fits));
  ConvCase c = fits;
  c.batch = 8;
  EXPECT_FALSE(takes(c)) << "a row of 32 halves";
  EXPECT_TRUE(cuda::plan_tapwise(geometry(c), cuda::Arithmetic::kTF32, {}, plan)) << "a row of 32 floats";
  c = fits;
  c.groups = 2;
  EXPECT_FALSE(takes(c));
  c = fits;
  c.kernel = {8, 9};
  EXPECT_FALSE(takes(c)) << "72 taps";
  c = fits;
  c.stride = c.dilation = {2, 2};
  EXPECT_FALSE(takes(c));
  c = fits;
  c.kernel = {1, 1};
  EXPECT_FALSE(takes(c)) << "a product of matrices as it is";
  ConvGeometry g = geometry(fits);
  g.batch = 0;
  EXPECT_FALSE(cuda::plan_tapwise(g, cuda::Arithmetic::kBFloat16, {}, plan));
}

}  // namespace
}  // namespace adjoint::testing
