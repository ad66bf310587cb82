// Normalisation with sizes that the registry's examples do not have, its accuracy, and the data it keeps.
#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/norm/norm.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

using testing::expect_same_bits;

void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected, double tolerance) {
  EXPECT_EQ(actual.shape(), expected.shape()) << what;
  testing::expect_near(what, actual, expected.to_vector<double>(), tolerance);
}

Tensor random(const Shape& shape, std::int64_t seed) {
  return Tensor::from_vector(testing::integers(shape.numel(), 9, static_cast<unsigned>(seed)), shape,
                             {.dtype = kFloat64}) /
         4.0;
}

// x seen as (samples, groups, depth, inner), over `axes`, in operators.
Tensor composed(const Tensor& x, const Shape& seen, const Dims& axes, const Tensor& weight, const Tensor& bias,
                const Tensor& residual) {
  const Shape by_channel{1, seen[1], seen[2], 1};
  const Tensor all = x.reshape(seen), centred = all - all.mean(axes, true);
  const Tensor normal = centred * rsqrt(square(centred).mean(axes, true) + 1e-5);
  return sigmoid((normal * weight.reshape(by_channel) + bias.reshape(by_channel)).reshape(x.shape()) + residual);
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

std::vector<Tensor> gradients(const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.clone().requires_grad_());
  Tape tape;
  const Tensor y = f(leaves);
  std::vector<Tensor> all = tape.gradient((y * y).sum(), leaves);
  all.push_back(y.detach());
  return all;
}

void expect_equal(const std::string& what, const Function& f, const Function& g, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> found = gradients(f, inputs), expected = gradients(g, inputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_close(what + " " + std::to_string(i), found[i], expected[i], 1e-9);
  }
  const int threads = num_threads();
  set_num_threads(threads == 1 ? 3 : 1);
  const std::vector<Tensor> again = gradients(f, inputs);
  set_num_threads(threads);
  for (std::size_t i = 0; i < found.size(); ++i) expect_same_bits(what + " by threads", again[i], found[i]);
}

// Blocks, tasks and rows that end in the middle of each other.
TEST(Norm, OfManySizes) {
  for (const auto& sizes :
       {std::tuple{3, 4, 1}, {70, 6, 1}, {3, 4, 7}, {2, 6, 65}, {5, 4, 128}, {2, 4, 9000}, {1000, 2, 40}}) {
    const std::int64_t samples = std::get<0>(sizes), channels = std::get<1>(sizes), inner = std::get<2>(sizes);
    SCOPED_TRACE(std::to_string(samples) + " " + std::to_string(channels) + " " + std::to_string(inner));
    const Shape shape{samples, channels, inner};
    const std::vector<Tensor> in{random(shape, 1), random({channels}, 2), random({channels}, 3), random(shape, 4)};
    const auto behind = [](const Tensor& r) { return NormFusion{.activation = Activation::sigmoid(), .residual = r}; };
    expect_equal(
        "batch", [&](const auto& t) { return batch_norm(t[0], {}, {}, t[1], t[2], true, 0.1, 1e-5, behind(t[3])); },
        [&](const auto& t) {
          return composed(t[0], {samples, channels, 1, inner}, {0, 2, 3}, t[1], t[2], t[3]);
        },
        in);
    expect_equal(
        "group", [&](const auto& t) { return group_norm(t[0], 2, t[1], t[2], 1e-5, behind(t[3])); },
        [&](const auto& t) {
          return composed(t[0], {samples, 2, channels / 2, inner}, {2, 3}, t[1], t[2], t[3]);
        },
        in);
    const std::vector<Tensor> by_element{in[0], random({channels, inner}, 5), random({channels, inner}, 6), in[3]};
    expect_equal(
        "layer",
        [&](const auto& t) {
          return layer_norm(t[0], {channels, inner}, t[1], t[2], 1e-5, behind(t[3]));
        },
        [&](const auto& t) {
          return composed(t[0], {samples, 1, channels * inner, 1}, {2, 3}, t[1], t[2], t[3]);
        },
        by_element);
  }
}

// A mean in one float32 would lose the low bits of numbers near it.
TEST(Norm, LosesNothingFarFromZero) {
  const Tensor x = Tensor::from_vector<double>({1000000, 1000001, 1000002, 1000003, 1000005, 1000008}, {1, 6});
  expect_close("float32", layer_norm(x, {6}), layer_norm(x.to(kFloat64), {6}).to(kFloat32), 1e-6);
  expect_close("batch", batch_norm(x.reshape({6, 1}), {}, {}, {}, {}, true).reshape({1, 6}),
               layer_norm(x.to(kFloat64), {6}).to(kFloat32), 1e-6);
}

// A weight near 1 moves by 1e-3 in a step, less than bfloat16's spacing there.
TEST(Norm, ParametersStayFloat32UnderMixedPrecision) {
  for (const Device device : {Device(kCPU), Device(kCUDA)}) {
    if (device.is_cuda() && !cuda_is_available()) continue;
    const Tensor x = random({6, 4, 5}, 1).to(kBFloat16).to(device);
    const auto leaf = [&](double value) { return Tensor::full({4}, value, {.device = device}).requires_grad_(); };
    const auto run = [&](const Tensor& in, const Tensor& w, const Tensor& b) {
      Tape tape;
      Tensor y;
      {
        const AutocastGuard guard(kBFloat16, {.enabled = in.dtype() == kBFloat16});
        y = batch_norm(in, {}, {}, w, b, true) + instance_norm(in, {}, {}, w, b);
      }
      const std::vector<Tensor> first = tape.gradient(square(y.to(kFloat32)).sum(), {w, b}, {.record = true});
      const Tensor second = tape.gradient(first[0].sum(), {w})[0];
      return std::vector<Tensor>{y.detach(), first[0].detach(), first[1].detach(), second};
    };
    const std::vector<Tensor> found = run(x, leaf(1.001), leaf(-0.001));
    const std::vector<Tensor> expected = run(x.to(kFloat32), leaf(1.001), leaf(-0.001));
    EXPECT_EQ(found[0].dtype(), kBFloat16);
    expect_close("y", found[0].to(kFloat32), expected[0], 0.05);
    const double tolerance = 0.003 * expected[1].abs().amax().item<double>();
    for (const std::size_t i : {1U, 2U, 3U}) {
      EXPECT_EQ(found[i].dtype(), kFloat32);
      expect_close("gradient " + std::to_string(i), found[i], expected[i], tolerance);
    }
    const Tensor other = batch_norm(x, {}, {}, leaf(1.004), {}, true);
    EXPECT_EQ(other.dtype(), kBFloat16) << "outside a region too";
  }
  const Tensor x = random({6, 4, 5}, 1).to(kBFloat16), w = Tensor::ones({4}),
               r = Tensor::ones({4}, {.dtype = kFloat64});
  EXPECT_ERROR(batch_norm(x, {}, {}, r, {}, true), "or float32 for an input of 16 bits; got float64");
  EXPECT_ERROR(group_norm(x, 2, w), "weight must have shape (4,) and input's dtype; got float32");
}

TEST(Norm, ComputesGradientsOfThoseThatNeedThem) {
  const std::vector<Tensor> in{random({2, 4, 5}, 1), random({4}, 2), random({4}, 3), random({2, 4, 5}, 4)};
  const auto f = [&](const std::vector<Tensor>& t) {
    return group_norm(t[0], 2, t[1], t[2], 1e-5, {.activation = Activation::silu(), .residual = t[3]});
  };
  const std::vector<Tensor> all = gradients(f, in);
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<Tensor> one = in;
    one[i] = in[i].clone().requires_grad_();
    Tape tape;
    const Tensor y = f(one);
    expect_same_bits("gradient " + std::to_string(i), tape.gradient((y * y).sum(), {one[i]})[0], all[i]);
  }
}

// Rows that a group of threads holds, in one pack each, two and four, and rows that are no whole packs; few rows for
// each block, and many.
TEST(Norm, OfRowsAgreesOnCuda) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a CUDA device";
  for (const auto& [rows, length] : {std::pair{5000, 8},
                                     {5000, 77},
                                     {37, 768},
                                     {5000, 1024},
                                     {37, 2056},
                                     {1100, 2560},
                                     {1100, 4096},
                                     {1100, 8192},
                                     {3, 9000}}) {
    for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(length) + " " + to_string(dtype));
      const double tolerance = dtype == kFloat64 ? 1e-11 : dtype == kFloat32 ? 5e-4 : 1e-2;
      const Shape shape{rows, length}, along{length};
      const std::vector<Tensor> in{random(shape, 1).to(dtype), random(along, 2).to(dtype), random(along, 3).to(dtype),
                                   random(shape, 4).to(dtype)};
      for (const bool centred : {true, false}) {
        const auto run = [&](Device device) {
          std::vector<Tensor> leaves;
          for (std::size_t i = 0; i < (centred ? 3 : 2); ++i) leaves.push_back(in[i].to(device).requires_grad_());
          Tape tape;
          const Tensor y = centred ? layer_norm(leaves[0], along, leaves[1], leaves[2])
                                   : rms_norm(leaves[0], along, leaves[1], 1e-5);
          std::vector<Tensor> all = tape.gradient((y * in[3].to(device)).sum(), leaves);
          all.push_back(y.detach());
          for (Tensor& each : all) each = each.to(kCPU);
          return all;
        };
        const std::vector<Tensor> there = run(kCUDA), again = run(kCUDA), here = run(kCPU);
        for (std::size_t i = 0; i < here.size(); ++i) {
          expect_close("result " + std::to_string(i), there[i], here[i], tolerance);
          expect_same_bits("again " + std::to_string(i), again[i], there[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace adjoint
