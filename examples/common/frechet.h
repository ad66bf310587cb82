// The distance of generated pictures from real ones: the Frechet distance of Heusel, Ramsauer, Unterthiner, Nessler,
// Hochreiter ("GANs trained by a two time-scale update rule converge to a local Nash equilibrium", 2017), of features
// of a classifier of the built-in pictures instead of Inception's. Its numbers are comparable only with one another.
#pragma once

#include "common/squares.h"
#include "common/state.h"
#include "common/training.h"

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace examples {

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
  explicit Classifier(const DrawnSet& drawn);
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
  const DrawnSet& drawn_;
  adjoint::nn::Child<adjoint::nn::Sequential> body_;
  adjoint::nn::Child<adjoint::nn::Linear> out_;
};

/// The distance of made pictures from a source's: from all pictures of a user's, or from `count` drawn ones.
class FrechetMeasure {
 public:
  /// The source must outlive this. The classifier is trained before the first measurement, for `classifier_steps`.
  FrechetMeasure(const SquareSource& source, std::int64_t classifier_steps, std::int64_t count, adjoint::Device device);
  /// Adds the classifier.
  void add_to(State& state);

  /// The number of drawn pictures that are compared, and of made ones that should be.
  std::int64_t count() const { return count_; }
  /// Of pictures (N, 3, 32, 32), uint8.
  double distance(const adjoint::Tensor& pictures);
  /// The distance of as many other drawn pictures, after the first measurement; none for a user's pictures.
  Values baselines() const;
  /// The classifier's accuracy on drawn pictures.
  double accuracy();

 private:
  void prepare();
  Gaussian gaussian(const adjoint::Tensor& pictures) const;
  /// Pictures to compare with, uint8: the user's, or drawn ones from number `first` on.
  adjoint::Tensor compared(std::uint64_t first) const;

  const SquareSource& source_;
  std::int64_t classifier_steps_, count_;
  adjoint::Device device_;
  Classifier classifier_;
  bool fitted_ = false;
  std::optional<Gaussian> real_;
};

}  // namespace examples
