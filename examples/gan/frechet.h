// How far generated pictures are from real ones: the Frechet distance of Heusel, Ramsauer, Unterthiner, Nessler,
// Hochreiter ("GANs trained by a two time-scale update rule converge to a local Nash equilibrium", 2017), of features
// of a classifier of the built-in pictures instead of Inception's. Its numbers are comparable only with one another.
#pragma once

#include "common/drawn.h"

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <vector>

namespace gan {

/// Mean and covariance of rows.
struct Gaussian {
  std::vector<double> mean;        // D
  std::vector<double> covariance;  // D x D, divided by N - 1
};
/// features (N, D), N at least 2, any floating-point dtype.
Gaussian gaussian_of(const adjoint::Tensor& features);
/// |mean_a - mean_b|^2 + tr(A + B - 2 (A B)^(1/2)), A and B the covariances; never negative.
double frechet_distance(const Gaussian& a, const Gaussian& b);

/// Recognises the class of a drawn picture by features that do not depend on their position.
class Classifier : public adjoint::nn::Module {
 public:
  /// A classifier of the pictures of `drawn`, which must outlive it. The initial weights are always the same; draws
  /// from no default generator.
  explicit Classifier(const examples::DrawnSet& drawn);
  /// Pictures (N, 3, 32, 32) in [-1, 1] -> (N, 64).
  adjoint::Tensor features(const adjoint::Tensor& pictures) const;
  /// -> scores (N, C) of the set's C classes.
  adjoint::Tensor operator()(const adjoint::Tensor& pictures) const { return out_(features(pictures)); }

  /// Trains on drawn pictures, always the same ones; the thread's default generator is left as it was. Eval mode
  /// follows.
  void fit(std::int64_t steps, adjoint::Device device);
  /// The share of 1,000 pictures, which fit() does not see, that it classifies correctly.
  double accuracy(adjoint::Device device) const;

 private:
  const examples::DrawnSet& drawn_;
  adjoint::nn::Child<adjoint::nn::Sequential> body_;
  adjoint::nn::Child<adjoint::nn::Linear> out_;
};

}  // namespace gan
