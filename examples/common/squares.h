// Sources of training pictures, and grids of them, for programs with small square pictures.
#pragma once

#include "common/drawn.h"

#include <adjoint/core/tensor/tensor.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace examples {

/// uint8 to [-1, 1], and back, rounded and clamped.
adjoint::Tensor to_signed(const adjoint::Tensor& bytes);
adjoint::Tensor to_bytes(const adjoint::Tensor& pictures);

/// The middle square of a picture (3, H, W), uint8, as (3, 32, 32), uint8.
adjoint::Tensor square_of(const adjoint::Tensor& picture);

/// Pictures of a set from number `first` on as (count, 3, 32, 32) in [-1, 1], float32; `labels`, if given, receives
/// their classes (count), int64.
adjoint::Tensor drawn_batch(const DrawnSet& set, std::uint64_t first, std::int64_t count,
                            adjoint::Tensor* labels = nullptr);

/// Drawn pictures, or pictures of a user's.
struct SquareSource {
  /// The pictures of the set `drawn_name` if `path` is empty; otherwise the path is a folder with MNIST's or CIFAR-10's
  /// files, whose test sets become `tests`, or one of PNG or JPEG files, of which every eighth is held out as `tests`
  /// if `hold_out` is true. Unreadable pictures are named and skipped. `training` counts as having `size` examples.
  /// Throws Error, naming the path, if there are fewer than two pictures.
  SquareSource(const std::string& program, const std::string& path, const std::string& drawn_name, std::int64_t size,
               bool hold_out);

  const DrawnSet& drawn;

  adjoint::Tensor pictures;                          // (N, 3, 32, 32), uint8: the training pictures; undefined: drawn
  adjoint::Tensor tests;                             // the same for the test pictures
  std::unique_ptr<adjoint::data::Dataset> training;  // random pictures, (3, 32, 32) in [-1, 1]; drawn ones are endless
  std::uint64_t fingerprint = 0;                     // of a user's

  /// "drawn shapes", "drawn digits", "1234 pictures".
  std::string description() const;
};

/// Pictures (N, 3, h, w), uint8, in rows of `columns`, two pixels of white between and around them: (3, H, W).
adjoint::Tensor tiled(const adjoint::Tensor& pictures, std::int64_t columns);

/// Returns normal numbers (count, latent), float32, on the CPU, which the seed alone decides. Draws from no default
/// generator.
adjoint::Tensor noise_of(std::uint64_t seed, std::int64_t count, std::int64_t latent);

/// `steps` points (steps, ...) from a to b, of one shape (...), along a great circle, lengths between theirs (White:
/// "Sampling generative networks", 2016): between two normal vectors a straight line is shorter than such vectors are.
adjoint::Tensor great_circle(const adjoint::Tensor& a, const adjoint::Tensor& b, std::int64_t steps);
/// `rows` such walks (rows steps, ...) in noise (2 rows, ...): walk r from number 2 r to number 2 r + 1.
adjoint::Tensor great_circles(const adjoint::Tensor& noise, std::int64_t rows, std::int64_t steps);

/// The results of f, joined along axis 0, for parts of x of at most `most` rows.
adjoint::Tensor in_parts(const adjoint::Tensor& x, std::int64_t most,
                         const std::function<adjoint::Tensor(const adjoint::Tensor&)>& f);

}  // namespace examples
