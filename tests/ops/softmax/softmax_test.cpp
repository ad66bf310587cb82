// softmax and its gradient over rows of every length and place that kernels treat apart.
#include <adjoint/adjoint.h>
#include <adjoint/ops/softmax/softmax.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

// Along axis 1: short and long rows in order, and columns, few and many.
const std::vector<Shape> kShapes = {{3, 1},    {300, 7},   {5, 1000},    {2, 4096},      {2, 5003},
                                    {1, 9001}, {1, 70001}, {2, 3000, 3}, {2, 19, 17000}, {40, 5, 40}};

Tensor values(const Shape& shape, std::uint64_t seed, DType dtype) {
  return Tensor::from_vector(testing::reals(shape.numel(), seed), shape, {.dtype = kFloat64}).mul_(20.0).to(dtype);
}

// In float64, from other operators.
Tensor expected(const Tensor& x, bool log) {
  const Tensor distance = x - x.amax({1}, true), sum = exp(distance).sum({1}, true);
  return log ? distance - adjoint::log(sum) : exp(distance) / sum;
}

Tensor gradient(const Tensor& x, const Tensor& g, Tensor (*f)(const Tensor&, std::int64_t)) {
  const Tensor leaf = x.detach().clone().requires_grad_();
  Tape tape;
  tape.backward((f(leaf, 1) * g).sum());
  return leaf.grad();
}

TEST(Softmax, AgreesWithItsFormula) {
  for (const Shape& shape : kShapes) {
    const Tensor x = values(shape, 3, kFloat64), narrow = x.to(kFloat32);
    const Tensor wide = narrow.to(kFloat64);
    for (const bool log : {false, true}) {
      const auto f = log ? log_softmax : softmax;
      testing::expect_near(to_string(shape), f(x, 1), expected(x, log).to_vector<double>(), 1e-12);
      testing::expect_near(to_string(shape), f(narrow, 1), expected(wide, log).to_vector<double>(), 1e-6);
    }
  }
}

TEST(Softmax, SumsOfLongFloat32RowsStayAccurate) {
  const Tensor y = softmax(Tensor::zeros({1, 1 << 22}), 1);
  EXPECT_FLOAT_EQ(y.select(1, 12345).item<float>(), 0x1p-22F);
}

TEST(Softmax, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  std::vector<Shape> shapes = kShapes;
  shapes.insert(shapes.end(), {{1, 64, 16384}, {2, 3, 131072}, {1, 128, 8192}});  // columns enough for packs of them
  for (const Shape& shape : shapes) {
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
      const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 2e-6 : 1e-2;
      const Tensor x = values(shape, 5, dtype), g = values(shape, 6, dtype);
      for (const auto f : {softmax, log_softmax}) {
        const Tensor there = f(x.to(kCUDA), 1);
        testing::expect_near(to_string(shape), there.to(kCPU), f(x, 1).to_vector<double>(), tolerance);
        testing::expect_same_bits("again", f(x.to(kCUDA), 1).to(kCPU), there.to(kCPU));
        testing::expect_near(to_string(shape), gradient(x.to(kCUDA), g.to(kCUDA), f).to(kCPU),
                             gradient(x, g, f).to_vector<double>(), 200 * tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace adjoint
