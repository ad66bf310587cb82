#include "adversary.h"

#include "common/memory_format.h"

#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/reparametrize.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/gan.h>

#include <utility>

namespace super_resolution {
namespace {

namespace nn = adjoint::nn;
using adjoint::GanLoss;
using adjoint::Tensor;

constexpr double kSlope = 0.2;
// Relative to the generator's learning rate: the discriminator has more parameters, and begins without bicubic
// interpolation.
constexpr double kRate = 0.25;

}  // namespace

nn::Sequential PatchDiscriminator::layers(std::int64_t c) {
  nn::Sequential layers;
  const auto append = [&](std::int64_t in, std::int64_t out, std::int64_t stride) {
    layers.append(nn::spectral_norm(nn::Conv2d(in, out, {.kernel_size = 4, .stride = stride, .padding = 1})));
  };
  append(2, c, 2);
  layers.append(nn::LeakyReLU({.negative_slope = kSlope}));
  append(c, 2 * c, 2);
  layers.append(nn::LeakyReLU({.negative_slope = kSlope}));
  append(2 * c, 4 * c, 1);
  layers.append(nn::LeakyReLU({.negative_slope = kSlope}));
  append(4 * c, 1, 1);
  return layers;
}

PatchDiscriminator::PatchDiscriminator(std::int64_t channels) : Module("PatchDiscriminator"), channels_(channels) {}

Tensor PatchDiscriminator::operator()(const Tensor& luma, const Tensor& plain) const {
  return main_(examples::in_format(adjoint::cat({luma, plain}, 1), examples::format_of(main_)) * 2.0 - 1.0);
}

Adversary::Adversary(std::int64_t channels, const examples::Run& run)
    : net_(channels),
      parallel_(examples::placed(net_, run.device, run.memory_format)),
      adam_(net_.parameters(), {.lr = kRate * run.lr, .betas = {0.5, 0.99}}),
      schedule_(adam_, {.T_max = run.steps}) {}

void Adversary::add_to(examples::State& state) {
  state.add("discriminator", net_);
  state.add("adam_d", adam_);
  state.add("schedule_d", schedule_);
}

Tensor Adversary::update(examples::Arithmetic& arithmetic, const Tensor& real, const Tensor& made,
                         const Tensor& plain) {
  const Tensor loss = arithmetic.minimise(adam_, [&] {
    const Tensor of_real = parallel_(real, plain);  // a separate statement fixes the order
    return adjoint::gan_discriminator_loss(GanLoss::kHinge, of_real, parallel_(made, plain));
  });
  schedule_.step();
  return loss;
}

Tensor Adversary::loss_of(const Tensor& made, const Tensor& plain) {
  net_.requires_grad_(false);
  const Tensor loss = adjoint::gan_generator_loss(GanLoss::kHinge, parallel_(made, plain));
  net_.requires_grad_(true);
  return loss;
}

}  // namespace super_resolution
