// Fused attention's kernels on the emulator, in any order of execution, compared with the composed form in float64.
#include <cuda_runtime.h>
#include <adjoint/ops/attention/cuda/launch.cuh>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/attention/attention.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::testing {
namespace {

enum class MaskKind { kNone, kCausal, kBool, kAdded };

struct Case {
  std::int64_t queries, keys, query_extent, value_extent;
  MaskKind mask = MaskKind::kNone;
  double dropout_p = 0.0;
  std::int64_t batch = 1, heads = 1, shared_heads = 1;
};

template <cuda::Arithmetic kArithmetic_>
struct Mode {
  static constexpr cuda::Arithmetic kArithmetic = kArithmetic_;
  static constexpr DType kDType = kArithmetic == cuda::Arithmetic::kBFloat16  ? kBFloat16
                                  : kArithmetic == cuda::Arithmetic::kFloat16 ? kFloat16
                                                                              : kFloat32;
  // Relative to the largest element: weights are rounded to 8 or 11 bits.
  static constexpr double kTolerance = kArithmetic == cuda::Arithmetic::kBFloat16 ? 0.012 : 0.0015;
};
using Modes = ::testing::Types<Mode<cuda::Arithmetic::kBFloat16>, Mode<cuda::Arithmetic::kFloat16>,
                               Mode<cuda::Arithmetic::kTF32>>;

// (N, H, L, E) as layers make it: heads are neighbours in memory.
Tensor transposed_heads(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t extent, DType dtype,
                        std::uint64_t seed) {
  std::vector<double> values = reals(batch * heads * rows * extent, seed);
  for (double& value : values) value *= 2.0;
  return Tensor::from_vector(values, {batch, rows, heads, extent}, {.dtype = dtype}).transpose(1, 2);
}

// Every fifth key is unseen, and query 2 sees no key. Broadcast over heads.
Tensor mask_of(const Case& c, DType dtype, std::uint64_t seed) {
  const std::vector<double> numbers = reals(c.batch * c.queries * c.keys, seed);
  std::vector<double> values(numbers.size());
  const bool added = c.mask == MaskKind::kAdded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const bool seen = at % 5 != 0 && at / c.keys % c.queries != 2;
    values[i] = !added ? (seen ? 1.0 : 0.0) : seen ? numbers[i] : -std::numeric_limits<double>::infinity();
  }
  const Tensor mask = Tensor::from_vector(values, {c.batch, 1, c.queries, c.keys}, {.dtype = added ? dtype : kBool});
  return mask.expand({c.batch, c.heads, c.queries, c.keys});
}

// `least`: the size of the terms that cancel, if the expected elements are smaller.
void expect_close(const char* what, const Tensor& got, const Tensor& expected, double tolerance, double least) {
  const double largest = std::max(expected.abs().amax().item<double>(), least);
  expect_near(what, got, expected.to_vector<double>(), tolerance * largest);
}

template <class M>
void check(const Case& c, std::uint64_t seed) {
  SCOPED_TRACE(std::to_string(c.queries) + " queries, " + std::to_string(c.keys) + " keys, " +
               std::to_string(c.query_extent) + " and " + std::to_string(c.value_extent) + " elements, mask " +
               std::to_string(static_cast<int>(c.mask)));
  const auto made = [&](std::int64_t heads, std::int64_t rows, std::int64_t extent, std::uint64_t number) {
    return transposed_heads(c.batch, heads, rows, extent, M::kDType, 10 * seed + number);
  };
  const Tensor query = made(c.heads, c.queries, c.query_extent, 0),
               key = made(c.shared_heads, c.keys, c.query_extent, 1),
               value = made(c.shared_heads, c.keys, c.value_extent, 2),
               slopes = made(c.heads, c.queries, c.value_extent, 3);
  const bool has_mask = c.mask == MaskKind::kBool || c.mask == MaskKind::kAdded;
  const Tensor mask = has_mask ? mask_of(c, M::kDType, seed) : Tensor{};
  Generator generator(seed);
  generator.seek(5);

  Tensor wide[3];
  for (int i = 0; i < 3; ++i) {
    wide[i] = (i == 0 ? query : i == 1 ? key : value).to(kFloat64).contiguous();
    wide[i].requires_grad_();
  }
  Tensor expected;
  {
    const GeneratorGuard guard(generator);
    Tape tape;
    expected =
        scaled_dot_product_attention(wide[0], wide[1], wide[2],
                                     {.attn_mask = has_mask && c.mask == MaskKind::kAdded ? mask.to(kFloat64) : mask,
                                      .dropout_p = c.dropout_p,
                                      .is_causal = c.mask == MaskKind::kCausal,
                                      .enable_gqa = true});
    tape.backward(expected, {.grad_output = slopes.to(kFloat64)});
  }

  AttentionAttr attr{.scale = 1.0 / std::sqrt(static_cast<double>(c.query_extent)),
                     .dropout_p = c.dropout_p,
                     .is_causal = c.mask == MaskKind::kCausal};
  attr.at = {generator.seed(), generator.offset(), nullptr};
  const auto unwritten = [](const Shape& shape, DType dtype) {
    return Tensor::full(shape, std::nan(""), {.dtype = dtype});
  };
  Tensor results[2] = {unwritten(expected.shape(), M::kDType), unwritten(AttentionAttr::statistics(query), kFloat32)};
  cuda::emulated_seed = seed;
  cuda::run_attention<M::kArithmetic>(std::array{query, key, value, mask}, results, attr);
  expect_close("result", results[0], expected, M::kTolerance, 0.0);

  Tensor gradients[3] = {unwritten(query.shape(), M::kDType), unwritten(key.shape(), M::kDType),
                         unwritten(value.shape(), M::kDType)};
  cuda::run_attention_gradients<M::kArithmetic>(std::array{slopes, query, key, value, mask, results[0], results[1]},
                                                gradients, attr);
  // Scores of a query that sees one key have no gradient.
  const double least = c.queries == 1 || c.keys == 1 ? 6.0 : 0.0;
  const char* const names[] = {"query's gradient", "key's gradient", "value's gradient"};
  for (int i = 0; i < 3; ++i) expect_close(names[i], gradients[i], wide[i].grad(), 2 * M::kTolerance, least);
}

template <class M>
class AttentionEmulation : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionEmulation, Modes);

TYPED_TEST(AttentionEmulation, HeadsOfEverySize) {
  std::uint64_t seed = 0;
  for (const auto& [query_extent, value_extent] :
       {std::pair{32, 32}, {64, 64}, {80, 72}, {128, 128}, {64, 136}, {256, 256}}) {
    check<TypeParam>({70, 150, query_extent, value_extent}, ++seed);
  }
}

TYPED_TEST(AttentionEmulation, SequencesOfEveryLength) {
  std::uint64_t seed = 20;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 300}, {300, 1}, {37, 64}, {129, 257}}) {
    for (const MaskKind mask : {MaskKind::kNone, MaskKind::kCausal}) {
      check<TypeParam>({queries, keys, 64, 64, mask}, ++seed);
    }
  }
  check<TypeParam>({200, 200, 256, 256, MaskKind::kCausal}, ++seed);
}

TYPED_TEST(AttentionEmulation, MasksAndQueriesThatSeeNoKey) {
  std::uint64_t seed = 40;
  for (const MaskKind mask : {MaskKind::kBool, MaskKind::kAdded}) {
    check<TypeParam>({37, 141, 64, 64, mask, 0.0, 2, 2, 2}, ++seed);
    check<TypeParam>({70, 40, 128, 128, mask}, ++seed);
    check<TypeParam>({40, 70, 256, 256, mask}, ++seed);
  }
}

TYPED_TEST(AttentionEmulation, AQueryThatSeesNoKeyGivesZeroWhateverTheValues) {
  const Shape shape{1, 1, 4, 64};
  const Tensor ones = Tensor::ones(shape, {.dtype = TypeParam::kDType}),
               nans = Tensor::full(shape, std::nan(""), {.dtype = TypeParam::kDType}),
               unseen = Tensor::zeros({1, 1, 4, 4}, {.dtype = kBool});
  Tensor results[2] = {nans.clone(), Tensor{}};
  cuda::emulated_seed = 55;
  cuda::run_attention<TypeParam::kArithmetic>(std::array{ones, ones, nans, unseen}, results, AttentionAttr{});
  expect_values("blind", results[0], std::vector<double>(4 * 64, 0.0));
}

TYPED_TEST(AttentionEmulation, HeadsThatShareOthers) {
  std::uint64_t seed = 60;
  check<TypeParam>({70, 90, 64, 64, MaskKind::kNone, 0.0, 2, 6, 2}, ++seed);
  check<TypeParam>({90, 140, 128, 128, MaskKind::kCausal, 0.0, 1, 3, 1}, ++seed);
}

TYPED_TEST(AttentionEmulation, DropsTheWeightsOfTheComposedForm) {
  std::uint64_t seed = 80;
  check<TypeParam>({70, 141, 64, 64, MaskKind::kNone, 0.3, 2, 2, 1}, ++seed);
  check<TypeParam>({70, 90, 128, 128, MaskKind::kCausal, 0.5}, ++seed);
  check<TypeParam>({37, 50, 256, 256, MaskKind::kBool, 0.1}, ++seed);
  check<TypeParam>({37, 50, 64, 64, MaskKind::kNone, 1.0}, ++seed);
}

}  // namespace
}  // namespace adjoint::testing
