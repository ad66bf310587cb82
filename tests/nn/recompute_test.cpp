// Layers with state under checkpoint(), which runs them twice.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/embedding.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::nn {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

// The layer with and without a checkpoint: results, gradients and states have the same bits over three steps, each of
// which runs the layer twice before its sweep. If a gradient has more than two terms, a checkpoint adds them in another
// order: `rounding` allows for it.
template <class M>
void expect_same_training(const std::string& what, const std::function<M()>& make, const Tensor& input,
                          bool record = false, double rounding = 0.0) {
  SCOPED_TRACE(what);
  const auto train = [&](bool recomputes) {
    manual_seed(5);
    M layer = make();
    std::vector<Tensor> seen;
    for (int step = 0; step < 3; ++step) {
      Tensor x = input.clone();
      if (is_floating_point(x.dtype())) x.requires_grad_();
      Tape tape;
      const auto run = [&](const std::vector<Tensor>& in) { return layer(in[0]); };
      const auto once = [&](const Tensor& in) { return recomputes ? checkpoint(run, {in}) : run({in}); };
      const Tensor a = once(x), b = once(x);
      tape.backward((a * a * a).sum() + (b * b).sum(), {.record = record});
      seen.insert(seen.end(), {a, b});
      if (x.requires_grad()) seen.push_back(x.grad());
      for (const Tensor& parameter : layer.parameters()) seen.push_back(parameter.grad().clone());
      for (const auto& [name, tensor] : layer.state_dict()) seen.push_back(tensor.clone());
    }
    return seen;
  };
  const std::vector<Tensor> plain = train(false), again = train(true);
  ASSERT_EQ(plain.size(), again.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::string name = fmt::format("tensor {}", i);
    if (rounding == 0.0) {
      expect_same_bits(name, again[i], plain[i]);
    } else {
      expect_near(name, again[i], plain[i].to_vector<double>(), rounding);
    }
  }
}

Tensor image() {
  manual_seed(1);
  return Tensor::randn({3, 4, 5, 6});
}

TEST(Recompute, StatisticsMoveOnce) {
  const std::optional<double> none;
  expect_same_training<BatchNorm2d>(
      "BatchNorm2d", [] { return BatchNorm2d(4); }, image());
  expect_same_training<BatchNorm2d>(
      "BatchNorm2d, no momentum", [&] { return BatchNorm2d(4, {.momentum = none}); }, image());
  expect_same_training<InstanceNorm2d>(
      "InstanceNorm2d", [] { return InstanceNorm2d(4, {.track_running_stats = true}); }, image());
  expect_same_training<BatchNorm1d>(
      "BatchNorm1d", [] { return BatchNorm1d(4); }, image().select(3, 0));
}

TEST(Recompute, SpectralNormMakesTheSameWeight) {
  for (const bool record : {false, true}) {
    expect_same_training<Conv2d>(
        "Conv2d", [] { return spectral_norm(Conv2d(4, 3, {.kernel_size = 3})); }, image(), record, 1e-6);
    expect_same_training<Linear>(
        "Linear", [] { return spectral_norm(Linear(6, 2)); }, image(), record, 1e-6);
  }
}

TEST(Recompute, EmbeddingScalesItsRowsOnce) {
  const Tensor indices = Tensor::from_vector<std::int64_t>({0, 2, 2, 1}, {4}, {.dtype = kInt64});
  expect_same_training<Embedding>(
      "Embedding", [] { return Embedding(3, 5, {.max_norm = 0.5}); }, indices);
}

}  // namespace
}  // namespace adjoint::nn
