// Rotary position embeddings.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <optional>

namespace adjoint {

struct RotaryOptions {
  /// Pair i of E / 2 turns by base^(-2 i / E) radians per position.
  double base = 10000.0;
  /// The position of the first row, such as the number of keys that a cache holds already.
  std::int64_t offset = 0;
  /// The positions of the rows, in place of `offset`: of any real dtype, broadcasts to x's shape without its last axis.
  Tensor positions = {};
  /// If true, features 2 i and 2 i + 1 are a pair, as in the article; else i and i + E / 2, as in most published
  /// weights.
  bool interleaved = false;
  /// The number of leading features that are rotated; by default all.
  std::optional<std::int64_t> dim = {};
};

/// Turns pairs of features by angles in proportion to their position, so that products of queries and keys depend on
/// distances (Su, Lu, Pan, Murtadha, Wen, Liu: "RoFormer", 2021): x (..., L, E) -> its shape and dtype. Positions are
/// those along the last axis but one. Angles are computed in float64, and 16-bit elements in float32, rounded once.
/// Differentiable to any order, but in positions. Throws Error unless x is floating point with two axes or more, the
/// number of features that turn is even and at most E, and base is positive.
ADJOINT_API Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {});

}  // namespace adjoint
