// Sums of elements and of pairs of them on the emulator: exact on small integers in every dtype, at any address and in
// any order of execution.
#include <cuda_runtime.h>
#include <adjoint/ops/conv/sums/cuda/activation_gradient.cu>
#include <adjoint/ops/reduce/cuda/reduce.cu>

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/tests/support/emulation/placed.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace adjoint::testing {
namespace {

Dims dims_of(std::uint32_t axes, std::size_t rank) {
  Dims dims;
  for (std::size_t i = 0; i < rank; ++i) {
    if ((axes >> i & 1U) != 0) dims.push_back(static_cast<std::int64_t>(i));
  }
  return dims;
}

struct Case {
  Shape shape;
  std::uint32_t axes;
};
/// Rows of packs and without, chunks of them; columns a few, packs of them and many; axes between others.
const std::array<Case, 14> kCases{{{{1}, 1},
                                   {{3, 64}, 2},
                                   {{3, 37}, 2},
                                   {{2, 20000}, 2},
                                   {{2, 20001}, 2},
                                   {{50, 7}, 1},
                                   {{900, 40}, 1},
                                   {{3, 4097, 5}, 0b010},
                                   {{4, 8, 4096}, 0b010},
                                   {{2, 3, 5, 7}, 0b1101},
                                   {{4, 3, 8, 64}, 0b1101},
                                   {{4, 3, 50, 64}, 0b1101},
                                   {{2, 3, 4, 5}, 0b0101},
                                   {{5, 1, 6}, 0b010}}};

template <class Check>
void for_each_case(const Check& check) {
  std::uint64_t seed = 0;
  for (const Case& c : kCases) {
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
      SCOPED_TRACE(to_string(dtype) + " " + to_string(c.shape) + " axes " + std::to_string(c.axes));
      cuda::emulated_seed = ++seed;
      check(c, dtype, static_cast<std::int64_t>(seed % 3));
    }
  }
}

TEST(SumsEmulated, OfElements) {
  for_each_case([](const Case& c, DType dtype, std::int64_t offset) {
    const Tensor x = placed(integers(c.shape.numel(), 2, cuda::emulated_seed), c.shape, dtype, offset);
    const Tensor expected = x.to(kFloat64).sum(dims_of(c.axes, c.shape.size()));
    Tensor out = unwritten(expected.shape(), dtype, offset);
    cuda::reduce_sum(std::array{x}, out, {c.shape, c.axes, false, 1.0});
    expect_values("sum", out, expected.to_vector<double>());
  });
}

TEST(SumsEmulated, OfPairs) {
  for_each_case([](const Case& c, DType dtype, std::int64_t offset) {
    const std::uint64_t seed = cuda::emulated_seed;
    const Tensor g = placed(integers(c.shape.numel(), 1, seed), c.shape, dtype, offset);
    const Tensor x = placed(integers(c.shape.numel(), 2, seed + 1), c.shape, dtype, 2 * offset);
    const Tensor product = g.to(kFloat64) * minimum(x.to(kFloat64), Tensor::scalar(0.0, {.dtype = kFloat64}));
    const Tensor expected = product.sum(dims_of(c.axes, c.shape.size()));
    Tensor out = unwritten(expected.shape(), dtype, offset);
    cuda::sum_gated(std::array{g, x}, out, {c.shape, c.axes, false, 1.0});
    expect_values("sum", out, expected.to_vector<double>());
  });
}

TEST(SumsEmulated, OfTheGradientOfAnActivation) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{4, 3, 8, 64}, Shape{1, 2, 5000}, Shape{600, 64}, Shape{37, 5}}) {
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64}) {
      for (const std::int64_t offset : {0, 1}) {
        SCOPED_TRACE(to_string(dtype) + " " + to_string(shape) + " at " + std::to_string(offset));
        const std::uint64_t seed = ++cuda::emulated_seed;
        const Tensor g = placed(integers(shape.numel(), 2, seed), shape, dtype, offset);
        const Tensor y = placed(integers(shape.numel(), 1, seed + 1), shape, dtype, offset);
        std::array out{unwritten(shape, dtype, offset), unwritten({shape[1]}, dtype, offset)};
        cuda::activation_and_bias_gradient(std::array{g, y}, out, {{ActivationKind::kReLU}});
        const Tensor expected = where(y.to(kFloat64) > 0.0, g.to(kFloat64), Tensor::zeros(shape, {.dtype = kFloat64}));
        expect_values("of the sums", out[0], expected.to_vector<double>());
        expect_values("of the bias", out[1], expected.sum(dims_of(~2U, shape.size())).to_vector<double>());
      }
    }
  }
}

}  // namespace
}  // namespace adjoint::testing
