// Embedding, and the layers that only rearrange elements.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

namespace adjoint::nn {
namespace {

using testing::expect_same_bits;
using testing::expect_values;

Tensor ints(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, {.dtype = kInt64});
}

TEST(Embedding, LooksUpRows) {
  Embedding embedding(3, 2);
  embedding.weight.copy_(Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
  const Tensor rows = embedding(ints({2, 0, 2, 1}, {2, 2}));
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
  expect_values("rows", rows, {5, 6, 1, 2, 5, 6, 3, 4});
  EXPECT_EQ(to_string(embedding), "Embedding(3, 2)");
  ASSERT_EQ(embedding.parameters().size(), 1U);
}

TEST(Embedding, StartsStandardNormal) {
  const GeneratorGuard guard(Generator(4));
  const Tensor weight = Embedding(100, 100).weight.detach();
  EXPECT_NEAR(weight.mean().item<float>(), 0.0, 0.05);
  EXPECT_NEAR((weight * weight).mean().item<float>(), 1.0, 0.05);
}

TEST(Embedding, PaddingIsZerosWithoutAGradient) {
  const Embedding embedding(4, 2, {.padding_idx = -2});
  EXPECT_EQ(to_string(embedding), "Embedding(4, 2, padding_idx=2)");
  expect_values("padding", embedding.weight.detach().select(0, 2), {0, 0});
  Tape tape;
  tape.backward(embedding(ints({2, 1, 2, 1, 0}, {5})).sum());
  expect_values("gradient", embedding.weight.grad(), {1, 1, 2, 2, 0, 0, 0, 0});
}

TEST(Embedding, ScalesTheRowsThatItReadsDownToTheirNorm) {
  Embedding embedding(4, 2, {.max_norm = 1.0});
  EXPECT_EQ(to_string(embedding), "Embedding(4, 2, max_norm=1)");
  embedding.weight.copy_(Tensor::from_vector<float>({3, 4, 30, 40, 0, 0.5, 6, 8}, {4, 2}));
  Tape tape;
  const Tensor rows = embedding(ints({0, 2, 0, 3}, {2, 2}));
  testing::expect_near("rows", rows, {0.6, 0.8, 0, 0.5, 0.6, 0.8, 0.6, 0.8}, 1e-6);
  testing::expect_near("weight", embedding.weight, {0.6, 0.8, 30, 40, 0, 0.5, 0.6, 0.8}, 1e-6);
  tape.backward(rows.sum());
  expect_values("gradient", embedding.weight.grad(), {2, 2, 0, 0, 1, 1, 1, 1});
}

TEST(Embedding, SaysWhatIsWrong) {
  EXPECT_ERROR(Embedding(3, 2, {.max_norm = -1.0}), "Embedding: max_norm must not be negative; got -1");
  EXPECT_ERROR(Embedding(0, 2), "Embedding: num_embeddings and embedding_dim must be at least 1; got 0, 2");
  EXPECT_ERROR(Embedding(3, 2, {.padding_idx = 3}), "Embedding: padding_idx must be one of the 3 rows; got 3");
  EXPECT_ERROR(Embedding(3, 2)(ints({3}, {1})), "Embedding: indices must lie in [0, 3); got 3 at (0,)");
  EXPECT_ERROR(Embedding(3, 2)(ints({0, 1, 2, 2, -1, 5}, {2, 3})),
               "Embedding: indices must lie in [0, 3); got -1 at (1, 1) of an index of shape (2, 3)");
  EXPECT_ERROR(Embedding(3, 2)(Tensor::zeros({1})), "Embedding: ", "float32");
}

TEST(Rearranging, PixelUnshuffleIsPixelShufflesInverse) {
  const Tensor x = Tensor::arange(0.0, 2 * 3 * 4 * 6).reshape({2, 3, 4, 6});
  const PixelUnshuffle unshuffle(2);
  EXPECT_EQ(unshuffle(x).shape(), (Shape{2, 12, 2, 3}));
  expect_same_bits("there and back", PixelShuffle(2)(unshuffle(x)), x);
  EXPECT_EQ(to_string(unshuffle), "PixelUnshuffle(downscale_factor=2)");
  EXPECT_ERROR(PixelUnshuffle(0), "PixelUnshuffle: downscale_factor must be at least 1; got 0");
}

TEST(Rearranging, UnflattenIsFlattensInverse) {
  const Sequential net(Flatten(), Unflatten(1, {3, -1, 2}));
  const Tensor x = Tensor::arange(0.0, 48).reshape({2, 3, 4, 2});
  expect_same_bits("there and back", net(x), x);
  EXPECT_EQ(to_string(Unflatten(1, {3, 4})), "Unflatten(dim=1, unflattened_size=(3, 4))");
  EXPECT_ERROR(Unflatten(1, {5, 2})(x.flatten(1)), "unflatten: ", "(5, 2)");
}

}  // namespace
}  // namespace adjoint::nn
