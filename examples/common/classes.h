// Classes of pixels and voxels: the loss that a network is trained with, its metrics, and masks as pictures.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace examples {

/// The mask value of a pixel or voxel that is not counted.
inline constexpr std::uint8_t kIgnored = 255;

/// Cross entropy plus the mean over classes of the dice loss of their probabilities in the whole batch; scores (N, C,
/// ...), target (N, ...), int64, where kIgnored is not counted.
adjoint::Tensor class_loss(const adjoint::Tensor& scores, const adjoint::Tensor& target);

/// The class of the highest score, of (C, ...): (1, ...), uint8.
adjoint::Tensor classes_of(const adjoint::Tensor& scores);

/// The picture (3, H, W), uint8, under half-transparent colours of the classes (1, H, W); class 0 is left unchanged.
adjoint::Tensor overlay(const adjoint::Tensor& picture, const adjoint::Tensor& classes);
/// The classes' colours alone.
adjoint::Tensor colored(const adjoint::Tensor& classes);

/// Pixels or voxels by true (row) and predicted (column) class, and the metrics derived from them.
class Confusion {
 public:
  explicit Confusion(std::int64_t classes);
  /// Masks of one shape, uint8; elements whose truth is kIgnored are not counted.
  void add(const adjoint::Tensor& truth, const adjoint::Tensor& predicted);
  /// Intersection over union of a class; NaN if it is neither present nor predicted anywhere.
  double iou(std::int64_t of_class) const;
  /// Over the classes that have one.
  double mean_iou() const;
  /// Twice the intersection over the sum of the two parts; NaN as in iou().
  double dice(std::int64_t of_class) const;
  /// Over the classes that have one, without class 0.
  double mean_dice() const;
  double accuracy() const;

 private:
  /// The mean of `of` over the classes from `first` on for which it is not NaN.
  double mean(std::int64_t first, const std::function<double(std::int64_t)>& of) const;
  std::int64_t at(std::int64_t truth, std::int64_t predicted) const;
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace examples
