#include "common/frechet.h"

#include "common/tested.h"

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/classification.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/optim/adam.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace examples {
namespace {

namespace nn = adjoint::nn;
using adjoint::Tensor;

constexpr std::int64_t kFeatures = 64, kBatch = 64, kTests = 1000;
constexpr std::uint64_t kSeed = 20171212;
// The first indices into the series of drawn pictures. They differ from those of training and measurement.
constexpr std::uint64_t kTestPictures = std::uint64_t{1} << 62U, kFitPictures = std::uint64_t{3} << 61U;

/// A symmetric matrix, row by row: eigenvalues, and vectors as columns, by Jacobi's rotations.
struct Eigen {
  std::vector<double> values, vectors;
};
Eigen eigen(std::vector<double> a, std::size_t n) {
  std::vector<double> v(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) v[i * n + i] = 1.0;
  double all = 0.0;
  for (const double x : a) all += x * x;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0.0;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        const double apq = a[p * n + q];
        off += apq * apq;
        if (apq == 0.0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
        const double t = (theta >= 0.0 ? 1.0 : -1.0) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1.0 / std::hypot(t, 1.0), s = t * c;
        const auto rotate = [&](double& x, double& y) {
          const double old = x;
          x = c * old - s * y;
          y = s * old + c * y;
        };
        for (std::size_t k = 0; k < n; ++k) rotate(a[k * n + p], a[k * n + q]);
        for (std::size_t k = 0; k < n; ++k) rotate(a[p * n + k], a[q * n + k]);
        for (std::size_t k = 0; k < n; ++k) rotate(v[k * n + p], v[k * n + q]);
      }
    }
    if (off <= 1e-30 * all) break;
  }
  Eigen result{std::vector<double>(n), std::move(v)};
  for (std::size_t i = 0; i < n; ++i) result.values[i] = a[i * n + i];
  return result;
}

Tensor matrix(const std::vector<double>& values, const adjoint::Shape& shape) {
  return Tensor::from_vector(values, shape, {.dtype = adjoint::kFloat64});
}

/// The root of a positive semidefinite matrix (n, n), float64; eigenvalues that rounding made negative count as 0.
Tensor root(const std::vector<double>& of, std::int64_t n) {
  Eigen e = eigen(of, static_cast<std::size_t>(n));
  for (double& value : e.values) value = std::sqrt(std::max(value, 0.0));
  const Tensor vectors = matrix(e.vectors, {n, n});
  return adjoint::matmul(vectors * matrix(e.values, {1, n}), vectors.transpose(0, 1));
}

}  // namespace

Gaussian gaussian_of(const Tensor& features) {
  if (features.dim() != 2 || features.size(0) < 2)
    throw adjoint::Error(
        fmt::format("gaussian_of: features must be (N, D), N at least 2; got {}", to_string(features.shape())));
  const Tensor x = features.to(adjoint::kCPU).to(adjoint::kFloat64);
  const Tensor mean = adjoint::mean(x, {0}), centred = x - mean;
  const Tensor covariance =
      adjoint::matmul(centred.transpose(0, 1), centred) / static_cast<double>(features.size(0) - 1);
  return {mean.to_vector<double>(), covariance.to_vector<double>()};
}

double frechet_distance(const Gaussian& a, const Gaussian& b) {
  const std::size_t n = a.mean.size();
  if (b.mean.size() != n)
    throw adjoint::Error(fmt::format("frechet_distance: both must have {} features; got {}", n, b.mean.size()));
  // (A B)^(1/2) has the trace of (A^(1/2) B A^(1/2))^(1/2), which is symmetric.
  const auto size = static_cast<std::int64_t>(n);
  const Tensor of_a = root(a.covariance, size);
  const Tensor product = adjoint::matmul(adjoint::matmul(of_a, matrix(b.covariance, {size, size})), of_a);
  double distance = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const double apart = a.mean[i] - b.mean[i];
    distance += apart * apart + a.covariance[i * n + i] + b.covariance[i * n + i];
  }
  for (const double value : eigen(((product + product.transpose(0, 1)) / 2.0).to_vector<double>(), n).values)
    distance -= 2.0 * std::sqrt(std::max(value, 0.0));
  return std::max(distance, 0.0);
}

Classifier::Classifier(const DrawnSet& drawn)
    : Module("Classifier"),
      drawn_(drawn),
      body_([this] {
        const adjoint::GeneratorGuard guard{adjoint::Generator(kSeed)};
        nn::Sequential layers;
        std::int64_t in = 3;
        for (const std::int64_t out : {kFeatures / 4, kFeatures / 2, kFeatures}) {
          layers.append(nn::Conv2d(in, out, {.kernel_size = 4, .stride = 2, .padding = 1, .bias = false}));
          layers.append(nn::BatchNorm2d(out));
          layers.append(nn::ReLU());
          in = out;
        }
        return register_module("body", std::move(layers));
      }()),
      out_([this] {
        const adjoint::GeneratorGuard guard{adjoint::Generator(kSeed + 1)};
        return register_module("out", nn::Linear(kFeatures, std::ssize(drawn_.classes)));
      }()) {}

Tensor Classifier::features(const Tensor& pictures) const { return adjoint::mean(body_(pictures), {2, 3}); }

void Classifier::fit(std::int64_t steps, adjoint::Device device) {
  adjoint::optim::Adam adam(parameters(), {.lr = 3e-3});
  train();
  for (std::int64_t step = 0; step < steps; ++step) {
    // The rate falls to 0, and the last steps settle.
    adam.set_lr(3e-3 * static_cast<double>(steps - step) / static_cast<double>(steps));
    Tensor labels;
    const Tensor pictures =
        drawn_batch(drawn_, kFitPictures + static_cast<std::uint64_t>(step * kBatch), kBatch, &labels);
    {
      adjoint::Tape tape;
      tape.backward(adjoint::cross_entropy((*this)(pictures.to(device)), labels.to(device)));
    }
    adam.step();
    adam.zero_grad();
  }
  eval();
}

double Classifier::accuracy(adjoint::Device device) const {
  Tensor labels;
  const Tensor pictures = drawn_batch(drawn_, kTestPictures, kTests, &labels);
  const Tensor found = adjoint::argmax((*this)(pictures.to(device)), 1).to(adjoint::kCPU);
  const auto a = found.to_vector<std::int64_t>(), b = labels.to_vector<std::int64_t>();
  std::int64_t right = 0;
  for (std::size_t i = 0; i < a.size(); ++i) right += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(kTests);
}

FrechetMeasure::FrechetMeasure(const SquareSource& source, std::int64_t classifier_steps, std::int64_t count,
                               adjoint::Device device)
    : source_(source),
      classifier_steps_(classifier_steps),
      count_(tested(count)),
      device_(device),
      classifier_(source.drawn) {
  classifier_.to(device);
  classifier_.eval();
}

void FrechetMeasure::add_to(State& state) {
  state.add("classifier", classifier_);
  state.add("fitted", fitted_);
}

Tensor FrechetMeasure::compared(std::uint64_t first) const {
  return source_.pictures.defined() ? source_.pictures : to_bytes(drawn_batch(source_.drawn, first, count_));
}

Gaussian FrechetMeasure::gaussian(const Tensor& pictures) const {
  constexpr std::int64_t kAtOnce = 256;
  return gaussian_of(in_parts(pictures, kAtOnce, [&](const Tensor& part) {
    return classifier_.features(to_signed(part.to(device_))).to(adjoint::kCPU);
  }));
}

void FrechetMeasure::prepare() {
  if (!fitted_) classifier_.fit(classifier_steps_, device_);
  fitted_ = true;
  if (!real_) real_ = gaussian(compared(0));
}

double FrechetMeasure::distance(const Tensor& pictures) {
  prepare();
  return frechet_distance(*real_, gaussian(pictures));
}

Values FrechetMeasure::baselines() const {
  if (source_.pictures.defined() || !real_) return {};
  return {{"other real pictures", frechet_distance(*real_, gaussian(compared(static_cast<std::uint64_t>(count_))))}};
}

double FrechetMeasure::accuracy() {
  prepare();
  return classifier_.accuracy(device_);
}

}  // namespace examples
