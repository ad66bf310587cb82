// Regions of mixed precision: which operands are cast to which dtypes, gradients, the cache of parameters, and ways to
// hide a region.
#include <adjoint/adjoint.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

namespace adjoint {
namespace {

Tensor ramp(const Shape& shape, DType dtype = kFloat32) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 7) / 8.0 - 0.25);
  return Tensor::from_vector<double>(values, shape, {.dtype = dtype});
}
Tensor parameter(const Shape& shape) { return ramp(shape).requires_grad_(); }

TEST(Autocast, FollowsEachOperatorsPolicy) {
  const Tensor x = ramp({2, 3, 8}), low = x.to(kBFloat16), filter = ramp({4, 3, 3}), bias = ramp({4});
  EXPECT_FALSE(autocast_dtype().has_value());
  const AutocastGuard guard(kBFloat16);
  EXPECT_EQ(autocast_dtype(), kBFloat16);
  EXPECT_EQ(conv1d(x, filter, bias, {}).dtype(), kBFloat16);
  EXPECT_EQ(conv1d(low, filter, bias, {}).dtype(), kBFloat16);
  EXPECT_EQ(linear(x, ramp({5, 8}), ramp({5})).dtype(), kBFloat16);
  EXPECT_EQ(matmul(low, ramp({8, 2})).dtype(), kBFloat16);
  EXPECT_EQ(scaled_dot_product_attention(x, low, x).dtype(), kBFloat16);
  EXPECT_EQ(prelu(x, ramp({3})).dtype(), kBFloat16);
  for (const Tensor& full : {exp(low), log(low), pow(low, 2.0), pow(low, x), 1.0 / low, softmax(low, 1), low.sum(),
                             prod(low), cumsum(low, 0), norm(low), norm(low, INFINITY, {}), softplus(low)}) {
    EXPECT_EQ(full.dtype(), kFloat32);
  }
  EXPECT_EQ(relu(low).dtype(), kBFloat16);
  EXPECT_EQ(low.mean().dtype(), kBFloat16);
  EXPECT_EQ((low * 2.0).dtype(), kBFloat16);
  EXPECT_EQ((low + x).dtype(), kFloat32);
  EXPECT_EQ((low * ramp({3, 1})).dtype(), kFloat32);
  EXPECT_EQ(where(x > 0.0, low, x).dtype(), kFloat32);
  EXPECT_EQ(cat({low, x}, 0).dtype(), kFloat32);
  EXPECT_EQ(stack({low, x}, 0).dtype(), kFloat32);
  EXPECT_EQ(cat({low, low}, 0).dtype(), kBFloat16);
  EXPECT_EQ(layer_norm(low, {8}, ramp({8})).dtype(), kFloat32);
  EXPECT_EQ(group_norm(low, 3, ramp({3}), ramp({3})).dtype(), kFloat32);
  EXPECT_EQ(batch_norm(low, {}, {}, ramp({3}), ramp({3}), true).dtype(), kBFloat16);
  EXPECT_EQ(instance_norm(x, {}, {}, ramp({3}), ramp({3})).dtype(), kFloat32);
}

TEST(Autocast, ComputesLossesInFloat32) {
  const Tensor x = ramp({2, 3, 4}), low = x.to(kBFloat16), weight = ramp({3});
  const Tensor classes = Tensor::zeros({2, 4}, {.dtype = kInt64});
  const Tensor image = ramp({1, 1, 12, 12}), low_image = image.to(kBFloat16);
  const double expected = ssim(low_image.to(kFloat32), image).item<double>();
  const AutocastGuard guard(kBFloat16);
  for (const Tensor& loss :
       {mse_loss(low, x), l1_loss(low, low), cross_entropy(low, classes, {.weight = weight}), cross_entropy(low, x),
        nll_loss(low, classes), binary_cross_entropy_with_logits(low, x, {.pos_weight = x}),
        kl_div(low, x, {.reduction = Reduction::kBatchMean}), gan_generator_loss(GanLoss::kHinge, low),
        gan_discriminator_loss(GanLoss::kHinge, low, x), total_variation(low_image)}) {
    EXPECT_EQ(loss.dtype(), kFloat32);
  }
  // Inside a loss nothing is cast back: its convolutions are float32 too.
  EXPECT_EQ(ssim(low_image, image).item<double>(), expected);
}

TEST(Autocast, LeavesFloat64AndIntegersAlone) {
  const AutocastGuard guard(kFloat16);
  const Tensor wide = ramp({4, 4}, kFloat64), count = Tensor::ones({4}, {.dtype = kInt64});
  EXPECT_EQ(matmul(wide, wide).dtype(), kFloat64);
  EXPECT_EQ(exp(wide).dtype(), kFloat64);
  EXPECT_EQ(wide.sum().dtype(), kFloat64);
  EXPECT_EQ(count.sum().dtype(), kInt64);
  EXPECT_ERROR(matmul(wide, ramp({4, 4})), "matmul", "float64");
  Tensor target = ramp({4});
  target.add_(1.0);
  EXPECT_EQ(target.dtype(), kFloat32);
}

// A scalar is rounded only once: to the dtype of the computation.
TEST(Autocast, RoundsScalarsToTheDtypeThatIsComputedIn) {
  const Tensor x = Tensor::full({1}, 3.0, {.dtype = kBFloat16});
  const double expected = pow(x.to(kFloat32), 2.3).item<double>();
  const AutocastGuard guard(kBFloat16);
  EXPECT_EQ(pow(x, 2.3).item<double>(), expected);
}

TEST(Autocast, ActivationsBehindConvolutionsHaveTheirOwnPolicy) {
  const Tensor x = ramp({2, 3, 8}), filter = ramp({4, 3, 3});
  const AutocastGuard guard(kBFloat16);
  EXPECT_EQ(conv1d(x, filter, {}, {.activation = Activation::relu()}).dtype(), kBFloat16);
  EXPECT_EQ(conv1d(x, filter, {}, {.activation = Activation::softplus()}).dtype(), kFloat32);
  const nn::Sequential fused{nn::Conv1d(3, 4, {.kernel_size = 3}), nn::LeakyReLU()};
  const nn::Sequential apart{nn::Conv1d(3, 4, {.kernel_size = 3}), nn::Softplus()};
  EXPECT_EQ(fused(x).dtype(), kBFloat16);
  EXPECT_EQ(apart(x).dtype(), kFloat32);
}

TEST(Autocast, GradientsArriveInTheParametersDtype) {
  const Tensor x = parameter({4, 3}), w = parameter({2, 3}), b = parameter({2});
  Tape tape;
  Tensor loss;
  {
    const AutocastGuard guard(kBFloat16);
    loss = mse_loss(linear(x, w, b), ramp({4, 2}));
  }
  tape.backward(loss);
  Tensor x_low = x.detach().to(kBFloat16).requires_grad_(), w_low = w.detach().to(kBFloat16).requires_grad_(),
         b_low = b.detach().to(kBFloat16).requires_grad_();
  Tape by_hand;
  by_hand.backward(mse_loss(linear(x_low, w_low, b_low).to(kFloat32), ramp({4, 2})));
  const Tensor wide[] = {x, w, b}, low[] = {x_low, w_low, b_low};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wide[i].grad().dtype(), kFloat32);
    EXPECT_EQ(wide[i].grad().to_vector<double>(), low[i].grad().to_vector<double>());
  }
}

// The backward pass runs in the dtypes of the forward calls, inside the region too.
TEST(Autocast, BackwardPassesAreOutsideTheRegion) {
  const Tensor x = parameter({4, 3}), w = parameter({3, 3});
  const auto gradient = [&](bool inside) {
    Tape tape;
    const AutocastGuard guard(kBFloat16);
    const Tensor loss = exp(matmul(x, w)).sum();
    if (inside) return tape.gradient(loss, {w})[0];
    const PauseAutocast off;
    return tape.gradient(loss, {w})[0];
  };
  EXPECT_EQ(gradient(true).to_vector<double>(), gradient(false).to_vector<double>());
}

std::size_t calls_of(const std::function<void()>& f) {
  Tape tape;
  f();
  return tape.size();
}

TEST(Autocast, CastsAParameterOnceAndAgainWhereItWasWrittenTo) {
  Tensor w = parameter({3, 3});
  const Tensor x = ramp({3, 3}, kBFloat16);
  const auto uses = [&](const AutocastOptions& options, int count) {
    return calls_of([&] {
      const AutocastGuard guard(kBFloat16, options);
      for (int i = 0; i < count; ++i) static_cast<void>(matmul(x, w));
    });
  };
  const std::size_t one_use = uses({}, 2) - uses({}, 1),
                    without = uses({.cache_enabled = false}, 2) - uses({.cache_enabled = false}, 1);
  EXPECT_EQ(without, one_use + 1);  // the cast

  const AutocastGuard guard(kBFloat16);
  EXPECT_EQ(matmul(x, w).to_vector<double>(), matmul(x, w.detach().to(kBFloat16)).to_vector<double>());
  w.mul_(2.0);
  const auto doubled = matmul(x, w.detach().to(kBFloat16)).to_vector<double>();
  EXPECT_EQ(matmul(x, w).to_vector<double>(), doubled);
  clear_autocast_cache();
  EXPECT_EQ(matmul(x, w).to_vector<double>(), doubled);
}

TEST(Autocast, ACastBelongsToTheTapeThatRecordedIt) {
  const Tensor w = parameter({3, 3}), x = ramp({3, 3});
  const AutocastGuard guard(kBFloat16);
  const Tensor outside = matmul(x, w);  // cast while nothing records
  EXPECT_FALSE(outside.requires_grad());
  for (int step = 0; step < 2; ++step) {
    Tape tape;
    {
      const PauseTape pause;
      EXPECT_FALSE(matmul(x, w).requires_grad());
    }
    const Tensor loss = matmul(x, w).sum();
    {
      Tape inner;
      EXPECT_TRUE(inner.gradient(matmul(x, w).sum(), {w})[0].defined());
    }
    EXPECT_TRUE(tape.gradient(loss, {w})[0].defined());
  }
}

// Two results behind a cast, swept one after the other.
TEST(Autocast, SeveralSweepsPassAParametersCast) {
  const Tensor w = parameter({3, 3}), x = ramp({3, 3});
  Tape tape;
  const AutocastGuard guard(kBFloat16);
  const Tensor first = matmul(x, w).sum(), second = matmul(x * 2.0, w).sum();
  tape.backward(first);
  const auto once = w.grad().to_vector<double>();
  tape.backward(second);
  tape.backward(matmul(x, w).sum());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(w.grad().to_vector<double>()[i], 4.0 * once[i]);
}

TEST(Autocast, RegionsNestAndAreOfOneThread) {
  const Tensor x = ramp({2, 2});
  const AutocastGuard outer(kBFloat16);
  {
    const AutocastGuard inner(kFloat16);
    EXPECT_EQ(matmul(x, x).dtype(), kFloat16);
    const AutocastGuard off(kBFloat16, {.enabled = false});
    EXPECT_EQ(matmul(x, x).dtype(), kFloat32);
    EXPECT_FALSE(autocast_dtype().has_value());
  }
  {
    const PauseAutocast pause;
    EXPECT_EQ(matmul(x, x).dtype(), kFloat32);
    const AutocastGuard again(kFloat16);
    EXPECT_EQ(matmul(x, x).dtype(), kFloat16);
  }
  EXPECT_EQ(matmul(x, x).dtype(), kBFloat16);
  std::thread([&] { EXPECT_EQ(matmul(x, x).dtype(), kFloat32); }).join();
}

TEST(Autocast, CheckpointRecomputesUnderTheForwardCallsPolicy) {
  const Tensor x = parameter({4, 4}), w = parameter({4, 4});
  std::vector<DType> seen;
  const auto f = [&](const std::vector<Tensor>& in) {
    const Tensor y = matmul(in[0], w);
    seen.push_back(y.dtype());
    return exp(y);
  };
  const auto gradient = [&](const std::function<Tensor()>& forward, bool sweeps_in_region) {
    Tape tape;
    Tensor loss;
    {
      const AutocastGuard guard(kBFloat16);
      loss = forward().sum();
      if (sweeps_in_region) return tape.gradient(loss, {w})[0].to_vector<double>();
    }
    return tape.gradient(loss, {w})[0].to_vector<double>();
  };
  const auto plain = gradient([&] { return f({x}); }, false);
  seen.clear();
  EXPECT_EQ(gradient([&] { return checkpoint(f, {x}); }, false), plain);
  EXPECT_EQ(gradient([&] { return checkpoint(f, {x}); }, true), plain);
  EXPECT_EQ(seen, std::vector<DType>(4, kBFloat16));

  seen.clear();
  Tape tape;
  const Tensor loss = checkpoint(f, {x}).sum();
  const AutocastGuard guard(kBFloat16);
  static_cast<void>(tape.gradient(loss, {w}));
  EXPECT_EQ(seen, std::vector<DType>(2, kFloat32));
}

TEST(Autocast, RefusesOtherDtypes) {
  EXPECT_ERROR(AutocastGuard(kFloat32), "AutocastGuard", "float32");
  EXPECT_ERROR(AutocastGuard(kInt64), "int64");
  EXPECT_ERROR(AutocastGuard(kFloat64, {.enabled = false}), "float64");
  EXPECT_FALSE(autocast_dtype().has_value());
}

// PyTorch's recipe: parameters and optimiser in float32, the network's products in bfloat16.
TEST(Autocast, TrainsAsFloat32Does) {
  const auto final_loss = [](bool mixed) {
    manual_seed(1);
    nn::Sequential net{nn::Conv2d(1, 8, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                       nn::ConvTranspose2d(8, 1, {.kernel_size = 4, .stride = 2, .padding = 1})};
    const Tensor high = interpolate(Tensor::rand({4, 1, 5, 5}), {.size = 16, .mode = Interpolation::kBicubic});
    const Tensor low = interpolate(high, {.size = 8, .mode = Interpolation::kBilinear, .antialias = true});
    optim::Adam adam(net.parameters(), {.lr = 1e-2});
    double last = 0.0;
    for (int step = 0; step < 60; ++step) {
      Tape tape;
      Tensor loss;
      {
        const AutocastGuard guard(kBFloat16, {.enabled = mixed});
        loss = mse_loss(net(low), high);
      }
      tape.backward(loss);
      adam.step();
      adam.zero_grad();
      last = loss.item<double>();
    }
    return last;
  };
  const double full = final_loss(false), mixed = final_loss(true);
  EXPECT_LT(full, 0.02);
  EXPECT_NEAR(mixed, full, 0.25 * full);
}

}  // namespace
}  // namespace adjoint
