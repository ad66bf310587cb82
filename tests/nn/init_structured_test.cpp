// Initialisers that compute more than one distribution.
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_near;
using testing::expect_values;

TEST(InitStructured, EyeAndDirac) {
  const Tensor t = Tensor::full({2, 3}, 9.0, {.dtype = kFloat16});
  init::eye_(t);
  expect_values("eye", t, {1, 0, 0, 0, 1, 0});
  Conv1d conv(4, 4, {.kernel_size = 3, .padding = 1, .groups = 2, .bias = false});
  init::dirac_(conv.weight, 2);
  const Tensor x = Tensor::randn({2, 4, 5});
  testing::expect_same_bits("identity", conv(x), x);
  const Tensor w = Tensor::full({3, 2, 2, 3}, 9.0);
  init::dirac_(w);
  EXPECT_EQ(w.sum().item<float>(), 2.0F);
  EXPECT_EQ(w.to_vector<float>()[1 * 3 + 1], 1.0F);
}

TEST(InitStructured, OrthogonalRowsOrColumns) {
  manual_seed(1);
  for (const Shape& shape : {Shape{3, 5}, Shape{5, 3}, Shape{4, 2, 2}}) {
    const Tensor t = Tensor::empty(shape, {.dtype = kFloat64});
    init::orthogonal_(t, 2.0);
    const Tensor m = t.reshape({shape[0], t.numel() / shape[0]});
    const Tensor few = m.size(0) <= m.size(1) ? m : m.transpose(0, 1);
    const std::int64_t n = few.size(0), k = few.size(1);
    const Tensor products = (few.reshape({n, 1, k}) * few.reshape({1, n, k})).sum({2});
    expect_near("products", products, (Tensor::eye(n, {.dtype = kFloat64}) * 4.0).to_vector<double>(), 1e-12);
  }
}

TEST(InitStructured, TruncatedNormalStaysInsideAndHasItsMoments) {
  manual_seed(2);
  const Tensor t = Tensor::empty({20000}, {.dtype = kFloat64});
  init::trunc_normal_(t);
  double sum = 0.0, squares = 0.0;
  for (const double x : t.to_vector<double>()) {
    EXPECT_LE(std::abs(x), 2.0);
    sum += x / 20000;
    squares += x * x / 20000;
  }
  EXPECT_NEAR(sum, 0.0, 0.03);
  EXPECT_NEAR(squares, 0.7737, 0.03);  // 1 - 4 p(2) / (2 P(2) - 1)
}

TEST(InitStructured, SparseColumns) {
  manual_seed(3);
  const Tensor t = Tensor::empty({10, 4});
  init::sparse_(t, 0.25, 1.0);
  const std::vector<float> values = t.to_vector<float>();
  for (std::size_t column = 0; column < 4; ++column) {
    int zeros = 0;
    for (std::size_t row = 0; row < 10; ++row) zeros += values[row * 4 + column] == 0.0F ? 1 : 0;
    EXPECT_EQ(zeros, 3);
  }
}

TEST(InitStructured, SaysWhatIsWrong) {
  const Tensor t = Tensor::ones({2, 3});
  EXPECT_ERROR(init::eye_(Tensor::ones({2})), "eye_: the tensor must have 2 axes; got shape (2,)");
  EXPECT_ERROR(init::dirac_(t), "dirac_: ", "(2, 3)");
  EXPECT_ERROR(init::dirac_(Tensor::ones({3, 1, 1}), 2), "dirac_: groups", "2");
  EXPECT_ERROR(init::trunc_normal_(t, 0.0, 1.0, 2.0, 1.0), "trunc_normal_: ", "a 2");
  EXPECT_ERROR(init::orthogonal_(Tensor::ones({2})), "orthogonal_: ", "(2,)");
  EXPECT_ERROR(init::sparse_(t, 1.5), "sparse_: sparsity", "1.5");
  EXPECT_ERROR(init::sparse_(Tensor::ones({2, 3}, {.dtype = kInt32}), 0.5), "floating point", "int32");
}

// Every pixel of the smaller image becomes a block of equal ones.
void expect_blocks(const Tensor& y, std::int64_t factor) {
  const Tensor smaller = y.index({kEllipsis, Slice({}, {}, factor), Slice({}, {}, factor)});
  const Shape& s = smaller.shape();
  const Tensor repeated =
      smaller.reshape({s[0], s[1], s[2], 1, s[3], 1}).expand({s[0], s[1], s[2], factor, s[3], factor});
  testing::expect_same_bits("blocks", repeated.reshape(y.shape()), y);
  EXPECT_GT(y.std().item<float>(), 0.0F);
}

TEST(InitStructured, IcnrRepeatsPixels) {
  const auto integers = [](Tensor t) { t.copy_(Tensor::from_vector(testing::integers(t.numel(), 4, 3), t.shape())); };
  const Tensor x = Tensor::from_vector(testing::integers(2 * 3 * 25, 4, 5), {2, 3, 5, 5});
  Conv2d conv(3, 2 * 9, {.kernel_size = 3, .padding = 1});
  init::icnr_(conv.weight, 3, integers);
  init::zeros_(conv.bias);
  expect_blocks(pixel_shuffle(conv(x), 3), 3);
  ConvTranspose2d up(3, 2, {.kernel_size = 4, .stride = 2});
  init::icnr_transposed_(up.weight, 2, integers);
  init::zeros_(up.bias);
  expect_blocks(up(x), 2);
  ConvTranspose1d row(3, 2, {.kernel_size = 6, .stride = 3});
  init::icnr_transposed_(row.weight, 3, integers);
  const Tensor taps = row.weight.tensor().select(0, 0).select(0, 0);
  expect_values("taps", taps.narrow(0, 1, 1), taps.narrow(0, 0, 1).to_vector<double>());
  init::icnr_(conv.weight, 3);  // drawn as kaiming_normal_ draws
  EXPECT_GT(conv.weight.tensor().std().item<float>(), 0.0F);
  EXPECT_ERROR(init::icnr_(conv.weight, 2), "icnr_: ", "(18, 3, 3, 3)", "upscale_factor 2");
  EXPECT_ERROR(init::icnr_transposed_(up.weight, 3), "icnr_transposed_: ", "stride 3");
}

}  // namespace
}  // namespace adjoint::nn
