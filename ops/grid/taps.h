// The pixels that a position of a grid reads along one axis, for host and device alike.
#pragma once

#include <adjoint/core/tensor/dtype.h>
#include <adjoint/ops/grid/grid.h>

#include <cmath>
#include <cstdint>

namespace adjoint {

struct GridAttr {
  GridSampleMode mode;
  GridSamplePadding padding;
  bool align_corners;
  int axes;                                            // 2, or 3 for volumes
  std::int64_t batch, channels, depth, height, width;  // of the image, whose depth is 1
  std::int64_t layers, rows, columns;                  // of the result

  ADJOINT_HD std::int64_t points() const { return layers * rows * columns; }
  ADJOINT_HD std::int64_t pixels() const { return depth * height * width; }
  ADJOINT_HD int taps() const {
    return mode == GridSampleMode::kNearest ? 1 : mode == GridSampleMode::kBilinear ? 2 : 4;
  }
};

inline constexpr int kMostTaps = 4;

namespace grid {

// A position, and its derivative.
template <class A>
struct Place {
  A at, slope;
};

template <class A>
ADJOINT_HD Place<A> clipped(const Place<A>& place, A most) {
  if (place.at <= A(0)) return {A(0), A(0)};
  if (place.at >= most) return {most, A(0)};
  return place;
}

template <class A>
ADJOINT_HD Place<A> reflected(const Place<A>& place, A low, A span) {
  if (span <= A(0)) return {A(0), A(0)};
  const A from_low = place.at - low, distance = std::fabs(from_low);
  const A flips = std::floor(distance / span), rest = std::fmod(distance, span);
  const bool even = std::fmod(flips, A(2)) == A(0);
  return {low + (even ? rest : span - rest), (from_low < A(0)) == even ? -place.slope : place.slope};
}

/// Moves the position inside the image, as the padding requires.
template <class A>
ADJOINT_HD Place<A> padded(const GridAttr& attr, const Place<A>& place, std::int64_t size) {
  const A most = static_cast<A>(size - 1);
  if (attr.padding == GridSamplePadding::kZeros) return place;
  if (attr.padding == GridSamplePadding::kBorder) return clipped(place, most);
  const Place<A> inside =
      attr.align_corners ? reflected(place, A(0), most) : reflected(place, A(-0.5), static_cast<A>(size));
  return clipped(inside, most);
}

/// The taps of a grid's number: pixels index[t], or -1 outside the image, with weights that are polynomials of
/// `fraction`, whose derivative in the number is `slope`.
template <class A>
struct Taps {
  A fraction, slope;
  std::int64_t index[kMostTaps];
};

template <class A>
ADJOINT_HD Taps<A> taps_of(const GridAttr& attr, A number, std::int64_t size) {
  constexpr A kFar = A(1 << 30);
  const bool nan = number != number;
  const A x = nan ? A(-1) : number, extent = static_cast<A>(size);
  const A half = nan ? A(0) : (attr.align_corners ? extent - A(1) : extent) / A(2);
  A at = attr.align_corners ? (x + A(1)) / A(2) * (extent - A(1)) : ((x + A(1)) * extent - A(1)) / A(2);
  at = at > kFar ? kFar : at < -kFar ? -kFar : at;
  Place<A> place{at, half};
  const bool cubic = attr.mode == GridSampleMode::kBicubic;
  if (!cubic) place = padded(attr, place, size);
  const A first = attr.mode == GridSampleMode::kNearest ? std::nearbyint(place.at) : std::floor(place.at);
  Taps<A> taps{place.at - first, place.slope, {}};
  const int count = attr.taps();
  for (int t = 0; t < kMostTaps; ++t) {  // a constant count, so that taps stay in registers
    if (t >= count) break;
    A pixel = first + static_cast<A>(cubic ? t - 1 : t);
    if (cubic) pixel = padded(attr, Place<A>{pixel, A(1)}, size).at;
    taps.index[t] = pixel >= A(0) && pixel < extent ? static_cast<std::int64_t>(pixel) : -1;
  }
  return taps;
}

/// Tap t's weight is the sum of kWeights[t][d] fraction^d.
inline constexpr int kDegrees = 4;
template <class A>
struct Polynomial {
  A of[kDegrees];
};
template <class A>
ADJOINT_HD constexpr Polynomial<A> weight_of(GridSampleMode mode, int tap) {
  if (mode == GridSampleMode::kNearest) return {{A(1), A(0), A(0), A(0)}};
  if (mode == GridSampleMode::kBilinear) return {{A(1 - tap), A(2 * tap - 1), A(0), A(0)}};
  // Keys' kernel, (a + 2) |s|^3 - (a + 3) s^2 + 1 up to |s| = 1 and a (|s|^3 - 5 s^2 + 8 |s| - 4) up to 2, at s =
  // fraction + 1, fraction, 1 - fraction, 2 - fraction.
  constexpr A a = A(-0.75);
  switch (tap) {
    case 0: return {{A(0), a, -A(2) * a, a}};
    case 1: return {{A(1), A(0), -(a + A(3)), a + A(2)}};
    case 2: return {{A(0), -a, A(2) * a + A(3), -(a + A(2))}};
    default: return {{A(0), A(0), a, -a}};
  }
}
template <class A>
ADJOINT_HD A weight(GridSampleMode mode, int tap, A fraction) {
  const Polynomial<A> p = weight_of<A>(mode, tap);
  return ((p.of[3] * fraction + p.of[2]) * fraction + p.of[1]) * fraction + p.of[0];
}

/// use.operator()<taps, axes>() with attr.taps() and attr.axes. Volumes have no cubic taps.
template <class Use>
void with_taps(const GridAttr& attr, const Use& use) {
  const bool deep = attr.axes == 3;
  switch (attr.mode) {
    case GridSampleMode::kNearest: return deep ? use.template operator()<1, 3>() : use.template operator()<1, 2>();
    case GridSampleMode::kBilinear: return deep ? use.template operator()<2, 3>() : use.template operator()<2, 2>();
    default: return use.template operator()<kMostTaps, 2>();
  }
}

/// A point of an image: for each of `channels` channels the sum of weights times pixels, in a fixed order, passed to
/// out(c, sum). kTaps is attr.taps(), kAxes attr.axes; loads of kGroup channels overlap.
template <class A, int kTaps, int kAxes, int kGroup, class T, class Out>
ADJOINT_HD void sample(const GridAttr& attr, const T* image, std::int64_t channels, const T* numbers, const Out& out) {
  const Taps<A> tx = taps_of(attr, static_cast<A>(numbers[0]), attr.width);
  const Taps<A> ty = taps_of(attr, static_cast<A>(numbers[1]), attr.height);
  // A volume's rows are those of its layers, one after the other.
  constexpr int kRows = kAxes == 3 ? kTaps * kTaps : kTaps;
  A wx[kTaps], wy[kRows];
  const T* rows[kRows];
  bool has_row[kRows];
  for (int t = 0; t < kTaps; ++t) {
    wx[t] = weight(attr.mode, t, tx.fraction);
    wy[t] = weight(attr.mode, t, ty.fraction);
    has_row[t] = ty.index[t] >= 0;
    rows[t] = image + (ty.index[t] < 0 ? 0 : ty.index[t] * attr.width);
  }
  if constexpr (kAxes == 3) {
    const Taps<A> tz = taps_of(attr, static_cast<A>(numbers[2]), attr.depth);
    for (int r = kRows - 1; r >= 0; --r) {  // the first layer's rows are replaced last
      const int i = r / kTaps, j = r % kTaps;
      const std::int64_t layer = tz.index[i] < 0 ? 0 : tz.index[i] * attr.height * attr.width;
      wy[r] = weight(attr.mode, i, tz.fraction) * wy[j];
      has_row[r] = tz.index[i] >= 0 && has_row[j];
      rows[r] = rows[j] + layer;
    }
  }
  const std::int64_t size = attr.pixels();
  for (std::int64_t c = 0; c < channels; c += kGroup) {
    A sums[kGroup] = {};
    for (int g = 0; g < kGroup; ++g) {
      // The last group reads the last channel instead of missing ones.
      const std::int64_t offset = (c + g < channels ? c + g : channels - 1) * size;
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kTaps; ++j) {
          const bool inside = has_row[i] && tx.index[j] >= 0;
          const A pixel = inside ? static_cast<A>(rows[i][offset + tx.index[j]]) : A(0);
          sums[g] += wy[i] * wx[j] * pixel;
        }
      }
    }
    for (int g = 0; g < kGroup; ++g) {
      if (c + g < channels) out(c + g, sums[g]);
    }
  }
}

/// Point `p`'s fractions and slopes (x, y, z), and the pixels of its taps, or `outside` for taps outside the image.
template <class A>
ADJOINT_HD void write_taps(const GridAttr& attr, const A* numbers, std::int64_t n, std::int64_t p, std::int64_t outside,
                           A* fraction, A* slope, std::int64_t* index) {
  const std::int64_t extents[3] = {attr.width, attr.height, attr.depth};
  Taps<A> along[3] = {};
  for (int axis = 0; axis < 3; ++axis) {
    if (axis >= attr.axes) break;
    along[axis] = taps_of(attr, numbers[axis], extents[axis]);
    fraction[(n * attr.axes + axis) * attr.points() + p] = along[axis].fraction;
    slope[(n * attr.axes + axis) * attr.points() + p] = along[axis].slope;
  }
  // An image has one layer of taps, in its own.
  const int taps = attr.taps(), layers = attr.axes == 3 ? taps : 1;
  for (int k = 0; k < layers; ++k) {
    for (int i = 0; i < taps; ++i) {
      for (int j = 0; j < taps; ++j) {
        const std::int64_t z = along[2].index[k], y = along[1].index[i], x = along[0].index[j];
        const bool inside = z >= 0 && y >= 0 && x >= 0;
        index[((n * layers + k) * taps * taps + i * taps + j) * attr.points() + p] =
            inside ? (z * attr.height + y) * attr.width + x : outside;
      }
    }
  }
}

}  // namespace grid
}  // namespace adjoint
