// Resampling along one axis as a banded matrix: output o is a weighted sum of a short run of inputs. For host and
// device.
//
// Row o of the matrix has its weights at columns [start, end). Both ends never decrease with o, so the outputs that use
// one input are a run too, and the transpose is a band as well.
#pragma once

#include <adjoint/core/tensor/dtype.h>

#include <cmath>
#include <cstdint>

namespace adjoint {

enum class Filter : std::uint8_t { kNearest, kNearestExact, kLinear, kCubic };

struct ResampleAttr {
  int axis = -1;                // counted from the end: -1 width, -2 height; one less each in channels_last
  std::int64_t in_extent = 1;   // the image's
  std::int64_t out_extent = 1;  // the resampled image's
  double ratio = 1.0;           // input pixels between neighbouring output pixels
  Filter filter = Filter::kLinear;
  bool align_corners = false;
  bool antialias = false;
  double scale = 0.0;  // the caller's factor; 0: the caller gave out_extent
};

/// Both axes of planes (H, W); a signal has height 1. The matrix of an axis whose extent does not change is the
/// identity.
struct PlaneAttr {
  ResampleAttr h, w;
};

namespace band {

struct Run {
  std::int64_t start = 0, end = 0;
};

ADJOINT_HD inline std::int64_t clamped(std::int64_t value, std::int64_t extent) {
  return value < 0 ? 0 : value < extent ? value : extent - 1;
}

/// Keys' cubic at distance x (Keys, "Cubic convolution interpolation for digital image processing", 1981).
ADJOINT_HD inline double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}
ADJOINT_HD inline double triangle(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

/// Taps on either side of a position: two for cubic filters, one for linear ones.
ADJOINT_HD inline int support(const ResampleAttr& attr) { return attr.filter == Filter::kCubic ? 2 : 1; }

/// Filters that copy one input.
ADJOINT_HD inline bool copies(const ResampleAttr& attr) { return attr.filter < Filter::kLinear; }

/// The position of output o's centre, in input pixels whose centres are at integers. For filters that copy: the input's
/// position, from a quotient that is corrected for rounding if it is mathematically a whole number.
ADJOINT_HD inline double position(const ResampleAttr& attr, std::int64_t o) {
  if (copies(attr)) {
    const double at = (static_cast<double>(o) + (attr.filter == Filter::kNearestExact ? 0.5 : 0.0)) * attr.ratio;
    return std::floor(at + at * 0x1p-50);
  }
  const double at =
      attr.align_corners ? attr.ratio * static_cast<double>(o) : (static_cast<double>(o) + 0.5) * attr.ratio - 0.5;
  return attr.filter == Filter::kCubic || at > 0.0 ? at : 0.0;
}

/// An antialiasing filter widens with the distance of the outputs.
ADJOINT_HD inline double stretch(const ResampleAttr& attr) {
  return attr.antialias && attr.ratio > 1.0 ? attr.ratio : 1.0;
}

/// The most taps of a run.
ADJOINT_HD inline std::int64_t max_taps(const ResampleAttr& attr) {
  const double taps = 2.0 * std::ceil(support(attr) * stretch(attr)) + 1.0;
  return taps < static_cast<double>(attr.in_extent) ? static_cast<std::int64_t>(taps) : attr.in_extent;
}

/// The inputs that output o uses.
ADJOINT_HD inline Run run_of(const ResampleAttr& attr, std::int64_t o) {
  if (attr.antialias) {
    const double centre = (static_cast<double>(o) + 0.5) * attr.ratio;
    const double reach = support(attr) * stretch(attr);
    const auto start = static_cast<std::int64_t>(std::floor(centre - reach + 0.5));
    const auto end = static_cast<std::int64_t>(std::floor(centre + reach + 0.5));
    return {clamped(start, attr.in_extent), clamped(end - 1, attr.in_extent) + 1};
  }
  const auto at = static_cast<std::int64_t>(std::floor(position(attr, o)));
  if (copies(attr)) return {clamped(at, attr.in_extent), clamped(at, attr.in_extent) + 1};
  const std::int64_t before = support(attr) - 1, after = support(attr);
  return {clamped(at - before, attr.in_extent), clamped(at + after, attr.in_extent) + 1};
}

/// The weights of output o's inputs, in order; they sum to 1.
template <class T>
ADJOINT_HD inline void weights_of(const ResampleAttr& attr, std::int64_t o, T* weights) {
  const Run run = run_of(attr, o);
  if (attr.antialias) {
    const double centre = (static_cast<double>(o) + 0.5) * attr.ratio, shrink = 1.0 / stretch(attr);
    const auto raw = [&](std::int64_t i) {
      const double x = (static_cast<double>(i) + 0.5 - centre) * shrink;
      return attr.filter == Filter::kCubic ? cubic(x, -0.5) : triangle(x);
    };
    double total = 0.0;
    for (std::int64_t i = run.start; i < run.end; ++i) total += raw(i);
    for (std::int64_t i = run.start; i < run.end; ++i) weights[i - run.start] = static_cast<T>(raw(i) / total);
    return;
  }
  if (copies(attr)) {
    weights[0] = T(1);
    return;
  }
  for (std::int64_t i = run.start; i < run.end; ++i) weights[i - run.start] = T(0);
  const double at = position(attr, o);
  const double floor = std::floor(at);
  const int before = support(attr) - 1, after = support(attr);
  for (int tap = -before; tap <= after; ++tap) {
    const double x = at - floor - static_cast<double>(tap);
    const double weight = attr.filter == Filter::kCubic ? cubic(x, -0.75) : triangle(x);
    const std::int64_t i = clamped(static_cast<std::int64_t>(floor) + tap, attr.in_extent);
    weights[i - run.start] = static_cast<T>(static_cast<double>(weights[i - run.start]) + weight);
  }
}

/// The outputs that use input i: from the first whose run ends after i, up to the first whose run starts after i.
ADJOINT_HD inline Run users_of(const ResampleAttr& attr, std::int64_t i) {
  const auto first = [&](auto&& reached) {
    std::int64_t low = 0, high = attr.out_extent;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (reached(run_of(attr, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first([&](const Run& run) { return run.end > i; }), first([&](const Run& run) { return run.start > i; })};
}

}  // namespace band
}  // namespace adjoint
