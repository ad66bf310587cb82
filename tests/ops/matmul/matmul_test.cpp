// matmul against its definition in float64: PyTorch's shape rules, dtypes, strides, gradients, CUDA and bad input.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/cpu_backend.h>
#include <adjoint/core/base/cpu_isa.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

struct MatmulCase {
  Shape a, b, result;
};

std::ostream& operator<<(std::ostream& out, const MatmulCase& c) {
  return out << "{" << to_string(c.a) << ", " << to_string(c.b) << ", " << to_string(c.result) << "}";
}

const std::vector<MatmulCase>& matmul_cases() {
  static const std::vector<MatmulCase> cases = {
      {{2, 3}, {3, 4}, {2, 4}},
      {{1, 1}, {1, 1}, {1, 1}},
      {{5, 1}, {1, 7}, {5, 7}},
      {{1, 9}, {9, 1}, {1, 1}},
      {{300, 70}, {70, 530}, {300, 530}},
      {{3}, {3}, {}},
      {{3}, {3, 4}, {4}},
      {{2, 3}, {3}, {2}},
      {{3}, {5, 3, 4}, {5, 4}},
      {{5, 2, 3}, {3}, {5, 2}},
      {{5, 2, 3}, {3, 4}, {5, 2, 4}},
      {{2, 3}, {5, 3, 4}, {5, 2, 4}},
      {{5, 2, 3}, {5, 3, 4}, {5, 2, 4}},
      {{1, 2, 3}, {5, 3, 4}, {5, 2, 4}},
      {{6, 1, 2, 3}, {5, 3, 4}, {6, 5, 2, 4}},
      {{2, 1, 3, 2, 3}, {4, 1, 3, 4}, {2, 4, 3, 2, 4}},
      {{0, 3}, {3, 4}, {0, 4}},
      {{2, 0}, {0, 4}, {2, 4}},
      {{2, 3}, {3, 0}, {2, 0}},
      {{0, 2, 3}, {0, 3, 4}, {0, 2, 4}},
      {{0, 2, 3}, {3, 4}, {0, 2, 4}},
      {{0}, {0}, {}},
  };
  return cases;
}

// Those whose Jacobians are small enough to compute whole.
std::vector<MatmulCase> small_matmul_cases() {
  std::vector<MatmulCase> cases = matmul_cases();
  std::erase_if(cases, [](const MatmulCase& c) { return c.a.numel() + c.b.numel() > 200; });
  return cases;
}

// The product by its definition; each operand's values are row-major.
std::vector<double> naive(const MatmulCase& c, const std::vector<double>& a, const std::vector<double>& b) {
  Shape as = c.a, bs = c.b;
  if (as.size() == 1) as.insert(0, 1);
  if (bs.size() == 1) bs.push_back(1);
  const std::int64_t rows = as[as.size() - 2], inner = as.back(), columns = bs.back();
  const Shape batch_a(as.begin(), as.end() - 2), batch_b(bs.begin(), bs.end() - 2);
  const Shape batch = broadcast_shapes("naive", batch_a, batch_b);
  const auto index = [&](const Shape& of, std::int64_t i) {
    std::int64_t result = 0, step = 1;
    for (std::size_t k = 0; k < of.size(); ++k) {
      const std::int64_t extent = batch[batch.size() - 1 - k], own = of[of.size() - 1 - k];
      result += (own == 1 ? 0 : i % extent) * step;
      step *= own;
      i /= extent;
    }
    return result;
  };
  std::vector<double> result;
  for (std::int64_t i = 0; i < batch.numel(); ++i) {
    const std::int64_t base_a = index(batch_a, i) * rows * inner, base_b = index(batch_b, i) * inner * columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += a[static_cast<std::size_t>(base_a + row * inner + k)] *
                 b[static_cast<std::size_t>(base_b + k * columns + column)];
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

void expect_exact(const MatmulCase& c, Device device) {
  const std::vector<double> a = integers(c.a.numel(), 2, 1), b = integers(c.b.numel(), 2, 2);
  const std::vector<double> expected = naive(c, a, b);
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const TensorOptions options{.dtype = dtype, .device = device};
    const Tensor plain = matmul(Tensor::from_vector(a, c.a, options), Tensor::from_vector(b, c.b, options));
    EXPECT_EQ(plain.shape(), c.result);
    EXPECT_EQ(plain.dtype(), dtype);
    EXPECT_EQ(plain.device(), device);
    expect_values("contiguous " + to_string(dtype), plain, expected);
    const Tensor strided = matmul(non_contiguous(a, c.a, options), non_contiguous(b, c.b, options));
    expect_values("non-contiguous " + to_string(dtype), strided, expected);
  }
}

class Matmul : public ::testing::TestWithParam<MatmulCase> {};

TEST_P(Matmul, IsExactOnIntegers) { expect_exact(GetParam(), kCPU); }

TEST_P(Matmul, IsExactOnIntegersCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  expect_exact(GetParam(), kCUDA);
}

INSTANTIATE_TEST_SUITE_P(Cases, Matmul, ::testing::ValuesIn(matmul_cases()));

class MatmulGradient : public ::testing::TestWithParam<MatmulCase> {};

TEST_P(MatmulGradient, BothOrders) {
  const MatmulCase& c = GetParam();
  constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};  // bilinear
  const auto product = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
  const std::vector<Tensor> inputs = {Tensor::from_vector(integers(c.a.numel(), 3, 1), c.a, {.dtype = kFloat64}),
                                      Tensor::from_vector(integers(c.b.numel(), 3, 2), c.b, {.dtype = kFloat64})};
  EXPECT_TRUE(gradcheck(product, inputs, kExact));
  EXPECT_TRUE(gradgradcheck(product, inputs, kExact));
}

INSTANTIATE_TEST_SUITE_P(Cases, MatmulGradient, ::testing::ValuesIn(small_matmul_cases()));

TEST(MatmulStrides, TransposedOperandsGiveTheSameProduct) {
  const Tensor a = Tensor::from_vector(reals(40 * 30, 1), {30, 40}),
               b = Tensor::from_vector(reals(30 * 50, 2), {50, 30});
  const Tensor viewed = matmul(a.transpose(0, 1), b.transpose(0, 1));
  const Tensor copied = matmul(a.transpose(0, 1).contiguous(), b.transpose(0, 1).contiguous());
  expect_near("transposed", viewed, copied.to_vector<double>(), 1e-6);
}

// Large enough for the kernels of the CPU's instruction set, which read each operand in either order.
void expect_exact_in_either_order() {
  for (const MatmulCase& c : {MatmulCase{{70, 90}, {90, 65}, {70, 65}},
                              {{65, 600}, {600, 80}, {65, 80}},
                              {{3, 130, 140}, {3, 140, 129}, {3, 130, 129}}}) {
    const std::vector<double> a = integers(c.a.numel(), 2, 1), b = integers(c.b.numel(), 2, 2);
    const std::vector<double> expected = naive(c, a, b);
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = Tensor::from_vector(a, c.a, {.dtype = dtype}), y = Tensor::from_vector(b, c.b, {.dtype = dtype});
      const Tensor x_columns = x.transpose(-2, -1).contiguous().transpose(-2, -1);
      const Tensor y_columns = y.transpose(-2, -1).contiguous().transpose(-2, -1);
      expect_values("row-major", matmul(x, y), expected);
      expect_values("a column-major", matmul(x_columns, y), expected);
      expect_values("b column-major", matmul(x, y_columns), expected);
      expect_values("both column-major", matmul(x_columns, y_columns), expected);
    }
  }
}

TEST(MatmulStrides, LargeTransposedOperandsAreExactOnIntegers) {
  const CpuBackendGuard loops(CpuBackend::kVector);
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > best_cpu_isa()) continue;
    SCOPED_TRACE("instruction set " + std::to_string(static_cast<int>(isa)));
    const CpuIsaGuard guard(isa);
    expect_exact_in_either_order();
  }
  SCOPED_TRACE("Eigen");
  const CpuBackendGuard eigen(CpuBackend::kEigen);
  expect_exact_in_either_order();
}

TEST(MatmulReduced, SumsInFloat32AndRoundsOnce) {
  // 1 + 2048 * 2^-11 is 2 exactly; float16 sums would stay at 1.
  std::vector<double> row(2049, 0x1p-11);
  row[0] = 1.0;
  const std::vector<double> ones(2049, 1.0);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const TensorOptions options{.dtype = dtype};
    EXPECT_EQ(
        matmul(Tensor::from_vector(row, {2049}, options), Tensor::from_vector(ones, {2049}, options)).item<float>(),
        2.0F);
    if (!cuda_is_available()) continue;
    EXPECT_EQ(matmul(Tensor::from_vector(row, {2049}, options).to(kCUDA),
                     Tensor::from_vector(ones, {2049}, options).to(kCUDA))
                  .item<float>(),
              2.0F);
  }
}

TEST(MatmulNonfinite, ReachesItsRowAndColumnAlone) {
  std::vector<double> a(6, 1.0);
  a[4] = std::numeric_limits<double>::quiet_NaN();
  const Tensor product = matmul(Tensor::from_vector(a, {2, 3}), Tensor::ones({3, 2}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_values("NaN", product, {3, 3, nan, nan});
}

class MatmulCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(MatmulCuda, RealsAgreeWithFloat64AndRepeatTheirBits) {
  const MatmulCase c{{4, 129, 517}, {517, 260}, {4, 129, 260}};
  const std::vector<double> a = reals(c.a.numel(), 1), b = reals(c.b.numel(), 2);
  const Tensor x = Tensor::from_vector(a, c.a).to(kCUDA), y = Tensor::from_vector(b, c.b).to(kCUDA);
  const Tensor first = matmul(x, y);
  std::vector<double> exact = naive(c, x.to_vector<double>(), y.to_vector<double>());
  // A sum of K random terms goes astray like a random walk of K roundings of partial sums that grow like sqrt(K).
  expect_near("float32", first, exact, 517 * 0x1p-24);
  for (int i = 0; i < 5; ++i) expect_same_bits("again", matmul(x, y), first);
}

TEST_F(MatmulCuda, Tf32RoundsOperandsWhereAskedTo) {
  // 1 + 2^-12 needs more bits than tf32 has.
  const Tensor x = Tensor::full({64, 64}, 1.0 + 0x1p-12, {.device = kCUDA});
  const Tensor identity = Tensor::eye(64, {.device = kCUDA});
  EXPECT_EQ(matmul(x, identity).to_vector<float>(), std::vector<float>(64 * 64, 1.0F + 0x1p-12F));
  const PrecisionGuard guard(Precision::kTF32);
  EXPECT_EQ(matmul(x, identity).to_vector<float>(), std::vector<float>(64 * 64, 1.0F));
}

TEST_F(MatmulCuda, GradientsOfBothOrders) {
  const TensorOptions options{.dtype = kFloat64, .device = kCUDA};
  const auto product = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
  const std::vector<Tensor> inputs = {Tensor::from_vector(integers(12, 3, 1), {2, 2, 3}, options),
                                      Tensor::from_vector(integers(12, 3, 2), {3, 4}, options)};
  constexpr GradcheckOptions kExact{.eps = 1.0, .atol = 1e-12, .rtol = 1e-12};
  EXPECT_TRUE(gradcheck(product, inputs, kExact));
  EXPECT_TRUE(gradgradcheck(product, inputs, kExact));
}

TEST(MatmulBadInput, NamesOperandsRuleAndRemedy) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({4, 5});
  EXPECT_ERROR(matmul(a, b), "matmul: a's last axis must equal b's last but one", "a (2, 3), b (4, 5)", "transpose");
  EXPECT_ERROR(matmul(a, Tensor::zeros({2})), "matmul: a's last axis must equal b's only one", "b (2,)");
  EXPECT_ERROR(matmul(Tensor::zeros({2, 2, 3}), Tensor::zeros({5, 3, 4})), "matmul:", "(2,)", "(5,)");
  EXPECT_ERROR(matmul(a, Tensor::scalar(1.0)), "matmul: a and b must have an axis at least", "b ()");
  EXPECT_ERROR(matmul(a, Tensor::zeros({3, 4}, {.dtype = kFloat64})), "one floating-point dtype",
               "a float32, b float64");
  EXPECT_ERROR(matmul(a.to(kInt32), Tensor::zeros({3, 4}, {.dtype = kInt32})), "floating-point", "int32");
  EXPECT_ERROR(matmul(a, Tensor{}), "matmul", "b");
  // No operand is copied for an impossible result: copies would need 16 GB.
  const Tensor one = Tensor::zeros({1, 1, 1});
  const Tensor tall = one.expand({1, std::int64_t{1} << 32, 1}), wide = one.expand({2, 1, std::int64_t{1} << 32});
  EXPECT_ERROR(matmul(tall, wide), "must fit in 63 bits", "(2, 4294967296, 4294967296)");
  EXPECT_ERROR(matmul(tall, wide.select(0, 0)), "must fit in 63 bits", "(1, 4294967296, 4294967296)");
  if (cuda_is_available()) {
    EXPECT_ERROR(matmul(a, Tensor::zeros({3, 4}, {.device = kCUDA})), "one device", "a cpu, b cuda:0");
  }
}

}  // namespace
}  // namespace adjoint::testing
