// Classes of pictures of any size, by tiles.
#pragma once

#include "unet.h"

#include <adjoint/core/base/device.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>

namespace segmentation {

/// Scores (classes, H, W), float32 on the CPU, of a picture (3, H, W), uint8, by a model in eval mode that is on
/// `device`. Tiles of `tile` pixels, rounded up to a multiple of model.alignment(), begin at multiples of it and are
/// computed with model.margin() pixels around them. With BatchNorm the result equals that of the whole picture up to
/// rounding; with GroupNorm, whose statistics are computed for each tile, tiles are blended where they overlap. A
/// picture narrower than model.alignment() is extended by its last pixels.
adjoint::Tensor scores(const UNet& model, const adjoint::Tensor& picture, adjoint::Device device,
                       std::int64_t tile = 256);

/// The class of the highest score: (1, H, W), uint8.
adjoint::Tensor classes_of(const adjoint::Tensor& scores);

/// The picture under half-transparent colours of the classes; class 0 is left unchanged. (3, H, W), uint8.
adjoint::Tensor overlay(const adjoint::Tensor& picture, const adjoint::Tensor& classes);
/// The classes' colours alone.
adjoint::Tensor colored(const adjoint::Tensor& classes);

/// Pixels by true (row) and predicted (column) class, and the metrics derived from them.
class Confusion {
 public:
  explicit Confusion(std::int64_t classes);
  /// Masks (1, H, W), uint8; pixels whose truth is kIgnored are not counted.
  void add(const adjoint::Tensor& truth, const adjoint::Tensor& predicted);
  /// Intersection over union of a class; NaN if it is neither present nor predicted anywhere.
  double iou(std::int64_t of_class) const;
  /// Over the classes that have one.
  double mean_iou() const;
  double pixel_accuracy() const;

 private:
  std::int64_t at(std::int64_t truth, std::int64_t predicted) const;
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace segmentation
