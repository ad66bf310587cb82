// What the registry cannot say of indexing: sizes that threads share, equal indices, writes through views, what is
// refused on recorded tensors, and CUDA's indices out of range.
#include <adjoint/core/device.h>
#include <adjoint/core/factories.h>
#include <adjoint/core/random.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

Tensor ints(const std::vector<std::int64_t>& values) {
  return Tensor::from_vector(values, {static_cast<std::int64_t>(values.size())}, {.dtype = kInt64});
}

Tensor counting(const Shape& shape) {
  return Tensor::arange(0, static_cast<double>(shape.numel()), 1, {.dtype = kFloat64}).reshape(shape);
}

TEST(Index, OfIntegersAndSlicesIsAView) {
  Tensor x = counting({4, 6});
  Tensor part = index(x, {Slice(1, -1), Slice({}, {}, 3)});
  expect_values("every third", part, {6, 9, 12, 15});
  part.fill_(0);
  expect_values("written through", x.select(0, 1), {0, 7, 8, 0, 10, 11});
  EXPECT_EQ(index(x, {kNewAxis, kEllipsis, 2}).shape(), (Shape{1, 4}));
  EXPECT_EQ(index(x, {}).shape(), x.shape());
  expect_values("beyond the end", index(x, {0, Slice(4, 100)}), {4, 5});
  EXPECT_EQ(index(x, {0, Slice(5, 2)}).shape(), Shape({0}));
}

TEST(Index, TakesInt32) { expect_values("int32", index(counting({4}), {ints({3, -4}).to(kInt32)}), {3, 0}); }

TEST(Index, SharesLargeTensorsAmongThreads) {
  constexpr std::int64_t kRows = 3000, kColumns = 130;
  const GeneratorGuard guard(Generator(1));
  const Tensor x = randint(0, 1000, {kRows, kColumns}, {.dtype = kFloat32});
  const Tensor rows = randint(kRows, {kRows});
  const Tensor one_by_one = gather(x, 0, rows.unsqueeze(1).expand({kRows, kColumns}));
  expect_same_bits("rows", index_select(x, 0, rows), one_by_one);
  const std::vector<double> from = x.to_vector<double>();
  const std::vector<std::int64_t> named = rows.to_vector<std::int64_t>();
  std::vector<double> sums(from.size(), 0.0), last(from.size(), -1.0);
  for (std::size_t r = 0; r < named.size(); ++r) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::size_t to = static_cast<std::size_t>(named[r]) * kColumns + c;
      sums[to] += from[r * kColumns + c];
      last[to] = from[r * kColumns + c];
    }
  }
  const Tensor index = rows.unsqueeze(1).expand({kRows, kColumns});
  expect_values("sums", scatter_add(zeros_like(x), 0, index, x), sums);
  expect_values("the last of equals", scatter(full_like(x, -1), 0, index, x), last);
  Tensor written = full_like(x, -1);
  index_put_(written, {rows}, x);
  expect_values("the last of equals, in place", written, last);
  EXPECT_EQ(nonzero(written + 1.0).size(0), nonzero(Tensor::from_vector(last, x.shape()) + 1.0).size(0));
}

TEST(Index, EqualIndicesGiveTheLastOneTheGradient) {
  Tensor src = counting({3}).requires_grad_();
  Tape tape;
  const Tensor y = scatter(Tensor::zeros({2}, {.dtype = kFloat64}), 0, ints({1, 1, 1}), src);
  expect_values("the last", y, {0, 2});
  tape.backward(y.sum());
  expect_values("gradient", src.grad(), {0, 0, 1});
}

TEST(Index, PutsThroughViewsAndConverts) {
  Tensor x = counting({3, 4});
  Tensor turned = x.transpose(0, 1);
  index_put_(turned, {ints({0, 2})}, Tensor::from_vector<std::int32_t>({7, 8, 9}, {1, 1, 3}, {.dtype = kInt32}));
  expect_values("transposed", x, {7, 1, 7, 3, 8, 5, 8, 7, 9, 9, 9, 11});
  index_put_(x, {kEllipsis, 1}, x.select(1, 0) + 1.0);
  expect_values("an ellipsis", x.select(1, 1), {8, 9, 10});
  Tensor line = counting({4});
  index_put_(line, {ints({1, 2, 3})}, line.narrow(0, 0, 3));
  expect_values("from itself", line, {0, 0, 1, 2});
  EXPECT_EQ(&index_put_(line, {Slice(0, 0)}, 5.0), &line);
}

TEST(Index, PutIsRefusedWhereItWouldSpoilAGradient) {
  Tensor leaf = counting({3}).requires_grad_();
  Tape tape;
  EXPECT_ERROR(index_put_(leaf, {0}, 1.0), "index_put_: ");
  Tensor y = leaf * 2.0;
  EXPECT_ERROR(index_put_(y, {ints({0})}, 1.0), "index_put_: ");
  Tensor free = counting({3});
  index_put_(free, {0}, y.select(0, 1));
  EXPECT_FALSE(free.requires_grad());
  expect_values("free", free, {2, 1, 2});
}

TEST(IndexCuda, SumsAreTheSameOnEveryRunAndTheCPUs) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  const GeneratorGuard guard(Generator(2));
  // Of few rows, whose runs are long, and of many; whole numbers, so that the order of a sum does not show.
  for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 1}, {3, 70}, {5000, 40}}) {
    const Tensor weight = randint(-9, 10, {rows, width}, {.dtype = kFloat32});
    const Tensor names = randint(rows, {20000});
    const Tensor src = randint(-9, 10, {20000, width}, {.dtype = kFloat32});
    const Tensor index = names.unsqueeze(1).expand({20000, width});
    const Tensor expected = scatter_add(weight, 0, index, src);
    expect_same_bits("sums", scatter_add(weight.to(kCUDA), 0, index.to(kCUDA), src.to(kCUDA)).to(kCPU), expected);
    expect_same_bits("last", scatter(weight.to(kCUDA), 0, index.to(kCUDA), src.to(kCUDA)).to(kCPU),
                     scatter(weight, 0, index, src));
    const auto gradient = [&](Device device) {
      Tensor w = weight.to(device).detach().requires_grad_();
      Tape tape;
      tape.backward((embedding(names.to(device), w) * src.to(device)).sum());
      return w.grad().to(kCPU);
    };
    expect_same_bits("rows", gradient(kCUDA), gradient(kCPU));
    const Tensor reals = Tensor::rand({20000, width}, {.device = kCUDA});
    const auto sum = [&] { return scatter_add(weight.to(kCUDA), 0, index.to(kCUDA), reals).to(kCPU); };
    expect_same_bits("every run", sum(), sum());
  }
}

TEST(IndexCuda, OutOfRangeReadsNanAndWritesNothing) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  const Tensor x = Tensor::from_vector<float>({1, 2, 3}, {3}).to(kCUDA);
  const Tensor names = ints({0, 3, -1, 2}).to(kCUDA);
  const std::vector<float> picked = index_select(x, 0, names).to_vector<float>();
  EXPECT_TRUE(std::isnan(picked[1]) && std::isnan(picked[2]));
  EXPECT_EQ(picked[3], 3.0F);
  expect_values("added", scatter_add(x, 0, names, Tensor::ones({4}, {.device = kCUDA})).to(kCPU), {2, 2, 4});
  expect_values("put", scatter(x, 0, names, 9.0).to(kCPU), {9, 2, 9});
  EXPECT_TRUE(std::isnan(index(x, {ints({-4}).to(kCUDA)}).item<float>()));
}

}  // namespace
}  // namespace adjoint
