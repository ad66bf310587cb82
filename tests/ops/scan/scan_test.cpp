// cumsum over long axes, exactly on small integers, and its gradient, which runs from the other end.
#include <adjoint/adjoint.h>
#include <adjoint/ops/scan/scan.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <vector>

namespace adjoint {
namespace {

const std::vector<Shape> kShapes = {{3, 1}, {2, 1024}, {3, 5003}, {2, 3000, 3}, {2, 70, 300}, {1, 100000}};

Tensor small_integers(const Shape& shape, DType dtype) {
  return Tensor::from_vector(testing::integers(shape.numel(), 2, 7), shape, {.dtype = dtype});
}

std::vector<double> naive(const Tensor& x, bool reversed) {
  const std::int64_t extent = x.size(1), inner = x.numel() / (x.size(0) * extent);
  std::vector<double> sums = x.to_vector<double>();
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    for (std::int64_t k = 1; k < extent; ++k) {
      for (std::int64_t c = 0; c < inner; ++c) {
        const std::int64_t at = reversed ? extent - 1 - k : k, before = reversed ? at + 1 : at - 1;
        sums[static_cast<std::size_t>((row * extent + at) * inner + c)] +=
            sums[static_cast<std::size_t>((row * extent + before) * inner + c)];
      }
    }
  }
  return sums;
}

void check(Device device) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {kFloat32, kFloat64, kInt32}) {
      const Tensor x = small_integers(shape, dtype).to(device);
      testing::expect_values(to_string(shape), cumsum(x, 1).to(kCPU), naive(x.to(kCPU), false));
      if (dtype == kInt32) continue;
      const Tensor leaf = x.clone().requires_grad_();
      Tape tape;
      tape.backward((cumsum(leaf, 1) * x).sum());
      testing::expect_values(to_string(shape), leaf.grad().to(kCPU), naive(x.to(kCPU), true));
    }
  }
}

TEST(Cumsum, AddsLongAxes) { check(kCPU); }

TEST(Cumsum, AgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA GPU";
  check(kCUDA);
}

}  // namespace
}  // namespace adjoint
