#include <adjoint/core/tensor/shape.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

TEST(Shape, CountsElementsAndChecksTheProduct) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{2, 3, 4}.numel()), 24);
  EXPECT_EQ((Shape{1LL << 40, 1LL << 40, 0}.numel()), 0);
  EXPECT_ERROR((Shape{1LL << 32, 1LL << 32}.numel()), "must fit in 63 bits", "(4294967296, 4294967296)");
  EXPECT_ERROR((Shape{2, -1}.numel()), "must not be negative", "(2, -1)");
  EXPECT_ERROR(Shape(std::vector<std::int64_t>(9, 1)), "at most 8 axes");
}

TEST(Shape, AnIntegerIsAListOfOne) {
  const Shape shape = 3;
  EXPECT_EQ(shape, Shape{3});
  EXPECT_EQ(Tensor::zeros(0).shape(), Shape{0});
  EXPECT_EQ(Tensor::ones({2, 3}).sum(1).shape(), Shape{2});
  EXPECT_EQ(Tensor::ones({2, 3}).sum({}).shape(), Shape{});
  static_assert(!std::is_convertible_v<bool, Dims>);
}

TEST(Shape, InsertsAndErases) {
  Dims dims{1, 2, 3};
  dims.insert(1, 9);
  EXPECT_EQ(dims, (Dims{1, 9, 2, 3}));
  dims.erase(0);
  EXPECT_EQ(dims, (Dims{9, 2, 3}));
  dims.insert(3, 7);
  EXPECT_EQ(dims, (Dims{9, 2, 3, 7}));
}

TEST(Shape, PlacesThatDoNotExistAreErrors) {
  Dims none, dims{1, 2};
  EXPECT_ERROR(none.erase(0), "shape: an index must lie within the list of 0 values; got index 0 of ()");
  EXPECT_ERROR(none.back(), "got index 18446744073709551615 of ()");
  EXPECT_ERROR(none[0], "got index 0 of ()");
  EXPECT_ERROR(dims.erase(2), "got index 2 of (1, 2)");
  EXPECT_ERROR(dims.erase(SIZE_MAX), "got index 18446744073709551615");
  EXPECT_ERROR(dims.insert(3, 7), "got index 3 of (1, 2)");
  EXPECT_ERROR(dims[2] = 1, "got index 2 of (1, 2)");
  EXPECT_ERROR(std::as_const(dims)[8], "got index 8 of (1, 2)");
  EXPECT_EQ(dims, (Dims{1, 2}));
  Dims full = Dims::filled(kMaxRank, 1);
  EXPECT_ERROR(full.insert(0, 1), "at most 8 axes");
  EXPECT_ERROR(Dims::filled(9, 1), "at most 8 axes");
}

TEST(Shape, StridesOfWhatHasNoElementsFitIn63Bits) {
  EXPECT_EQ(contiguous_strides({2, 0, 3}), (Strides{3, 3, 1}));
  EXPECT_EQ(contiguous_strides({0, 1LL << 61, 3}), (Strides{3LL << 61, 3, 1}));
  EXPECT_EQ(contiguous_strides({0, 1LL << 61, 8}), (Strides{0, 0, 0}));
  EXPECT_EQ(contiguous_strides({1LL << 62, 0, 2}), (Strides{0, 0, 0})) << "an offset along the first axis counts";
  EXPECT_ERROR(contiguous_strides({1LL << 61, 8}), "must fit in 63 bits");
}

TEST(Shape, PrintsLikeATuple) {
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_EQ(to_string(Shape{5}), "(5,)");
  EXPECT_EQ(to_string(Shape{2, 3}), "(2, 3)");
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast_shapes("add", {4, 1, 3}, {2, 1}), (Shape{4, 2, 3}));
  EXPECT_EQ(broadcast_shapes("add", {}, {2, 0}), (Shape{2, 0}));
  EXPECT_EQ(broadcast_shapes("add", {1}, {0}), (Shape{0}));
  EXPECT_ERROR(broadcast_shapes("add", {2, 3}, {2}), "add: shapes must broadcast", "(2, 3)", "(2,)");
  EXPECT_EQ(resolve_axis("sum", -1, 3), 2U);
  EXPECT_ERROR(resolve_axis("sum", 3, 3), "sum: axis must lie in [-3, 3); got 3");
}

TEST(StridedPlan, MergesWhatIsContiguous) {
  const auto plan = make_strided_plan<2>({2, 3, 4}, {Strides{12, 4, 1}, Strides{12, 4, 1}});
  EXPECT_TRUE(plan.contiguous());
  EXPECT_EQ(plan.sizes[0], 24);
  const auto transposed = make_strided_plan<2>({3, 4}, {Strides{4, 1}, Strides{1, 3}});
  EXPECT_EQ(transposed.rank, 2);
  const auto scalar = make_strided_plan<1>({}, {Strides{}});
  EXPECT_EQ(scalar.numel, 1);
  EXPECT_TRUE(scalar.contiguous());
}

TEST(StridedPlan, VisitsEveryElementOnceWhateverTheStrides) {
  // A permuted, broadcast walk, big enough to be cut into parallel ranges.
  const Shape shape{7, 1, 130, 90};
  const Strides to = contiguous_strides(shape), from{0, 5, 1, 130};
  const auto plan = make_strided_plan<2>(shape, {to, from});
  std::vector<std::int64_t> seen(static_cast<std::size_t>(shape.numel()), -1);
  for_each_row(plan, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(offsets[0] + i * plan.strides[0][0]);
      EXPECT_EQ(seen[at], -1);
      seen[at] = offsets[1] + i * plan.strides[1][0];
    }
  });
  std::size_t next = 0;
  for (std::int64_t a = 0; a < 7; ++a) {
    for (std::int64_t c = 0; c < 130; ++c) {
      for (std::int64_t d = 0; d < 90; ++d) ASSERT_EQ(seen[next++], c + d * 130);
    }
  }
}

}  // namespace
}  // namespace adjoint
