// The kernels of clipping, by device. Internal to optim.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace adjoint::optim {

/// One tensor's contiguous elements.
struct Piece {
  void* data;
  std::int64_t numel;
  DType dtype;
};

/// The factor that undoes the multiplication of the loss by *scale (float32).
ADJOINT_HD inline double inverse(const float* scale) { return static_cast<float>(1.0 / static_cast<double>(*scale)); }
template <class T>
ADJOINT_HD bool is_finite(T value) {
  return value - value == T(0);
}

/// The p-norm of many numbers: combine() of their element()s, then finish().
struct Norm {
  double p;
  const float* scale = nullptr;  // the norm is that of the numbers divided by this scale
  float* found_inf = nullptr;    // set to 1 if a number is not finite

  ADJOINT_HD bool is_max() const { return p > 1.7976931348623157e308; }
  ADJOINT_HD double element(double value) const {
    const double magnitude = std::fabs(value);
    if (p == 2.0) return value * value;
    return p == 1.0 || is_max() ? magnitude : std::pow(magnitude, p);
  }
  ADJOINT_HD double combine(double a, double b) const {
    if (!is_max()) return a + b;
    return b > a || b != b ? b : a;  // NaN wins
  }
  ADJOINT_HD double finish(double total) const {
    const double norm = p == 2.0 ? std::sqrt(total) : p == 1.0 || is_max() ? total : std::pow(total, 1.0 / p);
    return scale == nullptr ? norm : norm * inverse(scale);
  }
};

/// The factor that clips a norm; NaN if the norm is NaN.
ADJOINT_HD inline double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1.0 ? 1.0 : factor;
}

/// PyTorch's rule for the scale after a GradScaler's step, in PyTorch's arithmetic.
struct ScaleRule {
  double growth_factor, backoff_factor;
  std::int64_t growth_interval;

  ADJOINT_HD void operator()(float* scale, std::int64_t* growth_tracker, float found_inf) const {
    if (found_inf != 0.0F) {
      *scale = static_cast<float>(*scale * backoff_factor);
      *growth_tracker = 0;
    } else if (++*growth_tracker >= growth_interval) {
      const auto grown = static_cast<float>(*scale * growth_factor);
      if (is_finite(grown)) *scale = grown;
      *growth_tracker = 0;
    }
  }
};

// `pieces` are on one device, which CUDA's functions take as an index. `norm` is a float64 scalar on that device.

namespace cpu {
/// Only reads the pieces.
void norm(const std::vector<Piece>& pieces, const Norm& rule, double* norm);
/// data *= clip_factor(norm, max_norm).
void scale(const std::vector<Piece>& pieces, const double* norm, double max_norm);
void clamp(const std::vector<Piece>& pieces, double bound);
/// data *= inverse(scale); sets found_inf to 1 if an element was not finite, and leaves it otherwise. Both are float32
/// scalars.
void unscale(const std::vector<Piece>& pieces, const float* scale, float* found_inf);
inline void update_scale(const ScaleRule& rule, float* scale, std::int64_t* growth_tracker, const float* found_inf) {
  rule(scale, growth_tracker, *found_inf);
}
}  // namespace cpu

namespace cuda {
void norm(const std::vector<Piece>& pieces, const Norm& rule, double* norm, int device);
void scale(const std::vector<Piece>& pieces, const double* norm, double max_norm, int device);
void clamp(const std::vector<Piece>& pieces, double bound, int device);
void unscale(const std::vector<Piece>& pieces, const float* scale, float* found_inf, int device);
void update_scale(const ScaleRule& rule, float* scale, std::int64_t* growth_tracker, const float* found_inf,
                  int device);
}  // namespace cuda

}  // namespace adjoint::optim
