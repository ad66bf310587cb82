#include "common/classes.h"

#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/functions.h>
#include <adjoint/ops/index/index.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/softmax/softmax.h>

#include <array>
#include <cmath>
#include <limits>

namespace examples {
namespace {

using adjoint::Tensor;

constexpr std::array<std::array<std::uint8_t, 3>, 8> kColors{{{0, 0, 0},
                                                              {230, 80, 60},
                                                              {60, 140, 230},
                                                              {240, 190, 40},
                                                              {60, 200, 110},
                                                              {170, 80, 200},
                                                              {60, 200, 210},
                                                              {240, 130, 180}}};

}  // namespace

Tensor class_loss(const Tensor& scores, const Tensor& target) {
  const Tensor counted = target != static_cast<double>(kIgnored);
  const Tensor classes = target * counted.to(adjoint::kInt64);
  const Tensor weight = counted.to(scores.dtype()).unsqueeze(1);
  const Tensor wanted = adjoint::moveaxis(adjoint::one_hot(classes, scores.size(1)), -1, 1).to(scores.dtype());
  // Over the batch: a class that one sample lacks would pull that sample's whole loss away from it.
  const auto of_batch = [&](const Tensor& x) { return (x * weight).transpose(0, 1).reshape({1, scores.size(1), -1}); };
  return adjoint::cross_entropy(scores, target, {.ignore_index = kIgnored}) +
         adjoint::dice_loss(of_batch(adjoint::softmax(scores, 1)), of_batch(wanted));
}

Tensor classes_of(const Tensor& scores) { return adjoint::argmax(scores, 0, true).to(adjoint::kUInt8).contiguous(); }

Tensor colored(const Tensor& classes) {
  const std::int64_t h = classes.size(1), w = classes.size(2);
  Tensor result = Tensor::empty({3, h, w}, {.dtype = adjoint::kUInt8});
  const auto* in = classes.data<std::uint8_t>();
  auto* out = result.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < h * w; ++i) {
    // Class 0 stays black; beyond the table colours repeat. Pixels that are not counted are grey.
    const std::size_t n = kColors.size() - 1, index = in[i] == 0 ? 0 : (in[i] - 1U) % n + 1U;
    for (std::int64_t c = 0; c < 3; ++c)
      out[c * h * w + i] = in[i] == kIgnored ? 128 : kColors[index][static_cast<std::size_t>(c)];
  }
  return result;
}

Tensor overlay(const Tensor& picture, const Tensor& classes) {
  const Tensor colors = colored(classes);
  Tensor result = picture.clone();
  const auto* in = colors.data<std::uint8_t>();
  const auto* of = classes.data<std::uint8_t>();
  auto* out = result.mutable_data<std::uint8_t>();
  const std::int64_t plane = classes.numel();
  for (std::int64_t i = 0; i < 3 * plane; ++i) {
    if (of[i % plane] != 0) out[i] = static_cast<std::uint8_t>((out[i] + in[i] + 1) / 2);
  }
  return result;
}

Confusion::Confusion(std::int64_t classes)
    : classes_(classes), counts_(static_cast<std::size_t>(classes * classes), 0) {}

std::int64_t Confusion::at(std::int64_t truth, std::int64_t predicted) const {
  return counts_[static_cast<std::size_t>(truth * classes_ + predicted)];
}

void Confusion::add(const Tensor& truth, const Tensor& predicted) {
  const Tensor t = truth.contiguous(), p = predicted.contiguous();
  const auto* a = t.data<std::uint8_t>();
  const auto* b = p.data<std::uint8_t>();
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    if (a[i] != kIgnored) ++counts_[static_cast<std::size_t>(a[i] * classes_ + b[i])];
  }
}

double Confusion::mean(std::int64_t first, const std::function<double(std::int64_t)>& of) const {
  double sum = 0.0, count = 0.0;
  for (std::int64_t c = first; c < classes_; ++c) {
    const double one = of(c);
    if (std::isnan(one)) continue;
    sum += one;
    count += 1.0;
  }
  return count > 0.0 ? sum / count : 0.0;
}

double Confusion::iou(std::int64_t of_class) const {
  std::int64_t all = -at(of_class, of_class);
  for (std::int64_t i = 0; i < classes_; ++i) all += at(of_class, i) + at(i, of_class);
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(at(of_class, of_class)) / static_cast<double>(all);
}

double Confusion::mean_iou() const {
  return mean(0, [&](std::int64_t c) { return iou(c); });
}

double Confusion::dice(std::int64_t of_class) const {
  const double one = iou(of_class);
  return 2.0 * one / (1.0 + one);
}

double Confusion::mean_dice() const {
  return mean(1, [&](std::int64_t c) { return dice(c); });
}

double Confusion::accuracy() const {
  std::int64_t right = 0, all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += at(c, c);
  for (const std::int64_t count : counts_) all += count;
  return all > 0 ? static_cast<double>(right) / static_cast<double>(all) : 0.0;
}

}  // namespace examples
