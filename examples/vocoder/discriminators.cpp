#include "discriminators.h"

#include <adjoint/nn/reparametrize.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/loss/gan.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/pad/pad.h>
#include <adjoint/ops/pool/pool.h>

#include <array>
#include <numeric>
#include <utility>

namespace vocoder {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::array<std::int64_t, 5> kPeriods{2, 3, 5, 7, 11};
constexpr int kScales = 3;
constexpr double kSlope = 0.1;

// The networks have c channels instead of 32. The paper's convolutions of a period are two-dimensional with kernels (5,
// 1), which see one column at a time; here columns are samples of the batch.
std::vector<Discriminator::Layer> period_layers(std::int64_t c) {
  return {{c, 5, 3}, {4 * c, 5, 3}, {16 * c, 5, 3}, {32 * c, 5, 3}, {32 * c, 5, 1}};
}
std::vector<Discriminator::Layer> scale_layers(std::int64_t c) {
  return {{4 * c, 15, 1},      {4 * c, 41, 2, 4},   {8 * c, 41, 2, 16}, {16 * c, 41, 4, 16},
          {32 * c, 41, 4, 16}, {32 * c, 41, 1, 16}, {32 * c, 5, 1}};
}

/// (N, 1, L) -> (N p, 1, ceil(L / p)): every p-th sample, from each of the first p on.
Tensor columns(const Tensor& sound, std::int64_t period) {
  const std::int64_t missing = (period - sound.size(2) % period) % period;
  const Tensor whole = missing == 0 ? sound : adjoint::pad(sound, {0, missing}, adjoint::PadMode::kReflect);
  const std::int64_t n = sound.size(0), rows = whole.size(2) / period;
  return whole.reshape({n, rows, period}).transpose(1, 2).reshape({n * period, 1, rows});
}

}  // namespace

Discriminator::Discriminator(const std::vector<Layer>& layers, std::int64_t last_kernel_size, Norm norm)
    : Module("Discriminator") {
  std::int64_t in = 1;
  const auto append = [&](const Layer& layer) {
    nn::Conv1d conv(in, layer.channels,
                    {.kernel_size = layer.kernel_size,
                     .stride = layer.stride,
                     .padding = layer.kernel_size / 2,
                     .groups = std::gcd(layer.groups, std::gcd(in, layer.channels))});
    convs_.append(norm == Norm::kSpectral ? nn::spectral_norm(std::move(conv)) : nn::weight_norm(std::move(conv)));
    in = layer.channels;
  };
  for (const Layer& layer : layers) append(layer);
  append({1, last_kernel_size, 1});
}

void Discriminator::operator()(const Tensor& sound, Judgement& judgement) const {
  Tensor x = sound;
  for (std::size_t i = 0; i < convs_.size(); ++i) {
    const bool last = i + 1 == convs_.size();
    x = last ? convs_[i](x) : convs_[i].activated(x, adjoint::Activation::leaky_relu(kSlope));
    judgement.features.push_back(x);
  }
  judgement.scores.push_back(x);
}

Discriminators::Discriminators(std::int64_t channels) : Module("Discriminators") {
  using Norm = Discriminator::Norm;
  for (std::size_t i = 0; i < kPeriods.size(); ++i)
    periods_.append(Discriminator(period_layers(channels), 3, Norm::kWeight));
  for (int i = 0; i < kScales; ++i)
    scales_.append(Discriminator(scale_layers(channels), 3, i == 0 ? Norm::kSpectral : Norm::kWeight));
}

Judgement Discriminators::operator()(const Tensor& sound) const {
  Judgement judgement;
  for (std::size_t i = 0; i < kPeriods.size(); ++i) periods_[i](columns(sound, kPeriods[i]), judgement);
  Tensor x = sound;
  for (int i = 0; i < kScales; ++i) {
    if (i > 0) x = adjoint::avg_pool1d(x, 4, {.stride = 2, .padding = 2});
    scales_[static_cast<std::size_t>(i)](x, judgement);
  }
  return judgement;
}

Tensor discriminator_loss(const std::vector<Tensor>& real, const std::vector<Tensor>& fake) {
  Tensor sum;
  for (std::size_t i = 0; i < real.size(); ++i) {
    const Tensor one = adjoint::gan_discriminator_loss(adjoint::GanLoss::kLeastSquares, real[i], fake[i]);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

Tensor generator_loss(const std::vector<Tensor>& fake) {
  Tensor sum;
  for (const Tensor& scores : fake) {
    const Tensor one = adjoint::gan_generator_loss(adjoint::GanLoss::kLeastSquares, scores);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

Tensor feature_loss(const Judgement& real, const Judgement& fake) {
  Tensor sum;
  for (std::size_t i = 0; i < real.features.size(); ++i) {
    const Tensor one = adjoint::l1_loss(fake.features[i], real.features[i]);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

}  // namespace vocoder
