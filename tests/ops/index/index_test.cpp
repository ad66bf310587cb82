// Indexing cases that the registry has no form for: sizes that threads share, equal indices, writes through views,
// calls refused on recorded tensors, and CUDA's indices out of range.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/factories.h>
#include <adjoint/core/tensor/random.h>
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

// Also if the index reaches only a part of x.
TEST(Index, ScatterAddRoundsOnce) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const bool whole : {true, false}) {
      const Tensor x = Tensor::full({whole ? 1 : 3, 2}, 1.5234375, {.dtype = dtype});
      const Tensor src = Tensor::from_vector<double>({-1.0078125, -0.46875, -1.359375}, {1, 3}, {.dtype = dtype});
      const Tensor y = scatter_add(x, 1, ints({1, 1, 1}).reshape({1, 3}), src);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.select(0, 0).to_vector<double>(), (std::vector<double>{1.5234375, -1.3125}));
    }
  }
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

// A mask without axes is an axis of one element, or an empty axis, among the other indices; PyTorch's results.
TEST(Index, TakesAMaskWithoutAxesAnywhere) {
  const Tensor x = counting({3, 4}), i = ints({0, 2});
  const Tensor yes = Tensor::ones({}, {.dtype = kBool}), no = Tensor::zeros({}, {.dtype = kBool});
  const std::vector<double> rows{0, 1, 2, 3, 8, 9, 10, 11};
  const auto expect = [&](const std::vector<Index>& indices, const Shape& shape, const std::vector<double>& values) {
    const Tensor found = index(x, indices);
    EXPECT_EQ(found.shape(), shape);
    expect_values("x[...]", found, values);
  };
  expect({i, yes}, {2, 4}, rows);
  expect({yes, i}, {2, 4}, rows);
  expect({i, Slice(), yes}, {2, 4}, rows);
  expect({i.unsqueeze(1), yes}, {2, 1, 4}, rows);
  expect({kNewAxis, yes, i}, {1, 2, 4}, rows);
  expect({i, yes, 1}, {2}, {1, 9});
  expect({i, yes, i}, {2}, {0, 10});
  expect({1, yes}, {1, 4}, {4, 5, 6, 7});
  expect({Slice(), yes}, {3, 1, 4}, x.to_vector<double>());
  expect({Slice(), no}, {3, 0, 4}, {});
  expect({ints({0}), no}, {0, 4}, {});
  EXPECT_ERROR(index(x, {i, no}), "index", "(2,)", "(0,)");
  Tensor written = x.clone();
  index_put_(written, {i, yes, i}, ints({-1, -2}));
  expect_values("x[i, True, i] = ...", written, {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, -2, 11});
}

// Dropped axes of one element are only in front.
TEST(Index, PutsValuesOfManyAxes) {
  for (const std::vector<Index>& indices : {std::vector<Index>{ints({0, 2})}, {Slice({}, {}, 2)}}) {
    const auto put = [&](const Shape& shape) {
      Tensor x = Tensor::zeros({3, 2}, {.dtype = kFloat64});
      return index_put_(x, indices, counting(shape) + 1.0);
    };
    for (const Shape& shape : {Shape{2, 2}, {1, 2, 2}, {1, 1, 2, 2}})
      expect_values("all", put(shape), {1, 2, 0, 0, 3, 4});
    for (const Shape& shape : {Shape{2, 1}, {1, 2, 1}}) expect_values("by row", put(shape), {1, 1, 0, 0, 2, 2});
    for (const Shape& shape : {Shape{2}, {1, 2}, {1, 1, 2}}) expect_values("by column", put(shape), {1, 2, 0, 0, 1, 2});
    for (const Shape& shape : {Shape{}, {1}, {1, 1, 1}}) expect_values("one", put(shape), {1, 1, 0, 0, 1, 1});
    for (const Shape& shape : {Shape{2, 1, 2}, {2, 2, 1}, {2, 1, 1}, {1, 2, 1, 2}, {3, 2}, {2, 3}}) {
      EXPECT_ERROR(put(shape), "index_put_: ", to_string(shape).c_str());
    }
  }
}

TEST(Index, RowsNeedAnAxis) {
  Tensor scalar = Tensor::ones({});
  EXPECT_ERROR(embedding_renorm_(scalar, ints({0}), 1.0), "embedding_renorm_: weight must have an axis at least", "()");
  EXPECT_ERROR(embedding(ints({0}), scalar), "embedding: weight must have an axis at least", "()");
  EXPECT_EQ(one_hot(Tensor::zeros({0}, {.dtype = kInt64}), 0).shape(), (Shape{0, 0}));
  EXPECT_ERROR(one_hot(Tensor::zeros({0}, {.dtype = kInt64}), -1), "one_hot: num_classes must be positive");
}

TEST(Index, PutIsRefusedWhereItWouldSpoilAGradient) {
  Tensor leaf = counting({3}).requires_grad_();
  Tape tape;
  EXPECT_ERROR(index_put_(leaf, {0}, 1.0), "index_put_: ");
  Tensor y = leaf * 2.0;
  EXPECT_ERROR(index_put_(y, {ints({0})}, 1.0), "index_put_: ");
  Tensor free = counting({3});
  EXPECT_ERROR(index_put_(free, {0}, y.select(0, 1)), "index_put_: ");
  index_put_(free, {0}, y.select(0, 1).detach());
  EXPECT_FALSE(free.requires_grad());
  expect_values("free", free, {2, 1, 2});
}

TEST(IndexCuda, SumsAreTheSameOnEveryRunAndTheCPUs) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  const GeneratorGuard guard(Generator(2));
  // With few rows, whose runs are long, and with many; whole numbers, so that the order of a sum does not show.
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
