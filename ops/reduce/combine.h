// The combination of two values in reductions, for host and device alike, and its types.
//
// A rule provides what a reduction's stages need: Acc, the type of unfinished results, and Out; identity(); combine(a,
// b) of two Acc; add(acc, x) and close(acc), by which elements become one Acc; finish(acc), an Out. A rule may have
// open(x), which starts accumulators that are used side by side, add_open(acc, x) and join(a, b) of two of them.
#pragma once

#include <adjoint/core/tensor/convert.h>
#include <adjoint/ops/elementwise/scalar_math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adjoint::reduce {

/// Sums of floats are accumulated in compute_t, those of integers and bool in int64.
template <class T>
using sum_t = std::conditional_t<std::is_integral_v<T>, std::int64_t, compute_t<T>>;

struct Sum {
  template <class A>
  ADJOINT_HD static constexpr A identity() {
    return A{};
  }
  template <class A>
  ADJOINT_HD static constexpr A combine(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));  // wraps around
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class A>
  ADJOINT_HD static constexpr A identity() {
    return A{1};
  }
  template <class A>
  ADJOINT_HD static constexpr A combine(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));  // wraps around
    } else {
      return a * b;
    }
  }
};

/// NaN wins.
struct Max {
  template <class A>
  ADJOINT_HD static constexpr A identity() {
    if constexpr (std::numeric_limits<A>::has_infinity) {
      return -std::numeric_limits<A>::infinity();
    } else {
      return std::numeric_limits<A>::lowest();
    }
  }
  template <class A>
  ADJOINT_HD static constexpr A combine(A a, A b) {
    if constexpr (std::is_same_v<A, bool>) return (a | b) != 0;
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<A, float>) {  // one instruction, not three
      float most;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
      return most;
    }
#endif
    return scalar::select((a > b) | (a != a), a, b);
  }
};

/// Op over A, then divided.
template <class Op, class A, class Result>
struct Total {
  using Acc = A;
  using Out = Result;
  double divisor = 1.0;

  ADJOINT_HD constexpr Acc identity() const { return Op::template identity<A>(); }
  ADJOINT_HD constexpr Acc combine(Acc a, Acc b) const { return Op::combine(a, b); }
  template <class T>
  ADJOINT_HD constexpr Acc add(Acc acc, T x) const {
    return Op::combine(acc, convert<A>(x));
  }
  ADJOINT_HD constexpr Acc close(Acc acc) const { return acc; }
  ADJOINT_HD constexpr Out finish(Acc acc) const {
    if constexpr (std::is_floating_point_v<A>) {
      return convert<Out>(divisor == 1.0 ? acc : acc / static_cast<A>(divisor));
    } else {
      return convert<Out>(acc);
    }
  }
};

/// An unfinished result, which its type distinguishes from elements.
template <class A>
struct Held {
  A value;
};

/// Op over map of each element, then map.finish() of the result.
template <class Op, class A, class Result, class Map>
struct Mapped {
  using Acc = Held<A>;
  using Out = Result;
  Map map;

  ADJOINT_HD constexpr Acc identity() const { return {Op::template identity<A>()}; }
  ADJOINT_HD constexpr Acc combine(Acc a, Acc b) const { return {Op::combine(a.value, b.value)}; }
  template <class T>
  ADJOINT_HD constexpr Acc add(Acc acc, T x) const {
    return {Op::combine(acc.value, map(convert<A>(x)))};
  }
  ADJOINT_HD constexpr Acc add(Acc a, Acc b) const { return combine(a, b); }
  ADJOINT_HD constexpr Acc close(Acc acc) const { return acc; }
  ADJOINT_HD constexpr Out finish(Acc acc) const { return convert<Out>(map.finish(acc.value)); }
};

/// Reverses a number's order, so that the least becomes the largest, or drops its sign, by its bits: one kernel serves
/// maxima and minima. For bool, the largest is "any", and the least "all".
template <class A>
class Reorder {
 public:
  Reorder(bool reversed, bool magnitude)
      : keep_(static_cast<Bits>(magnitude ? ~kSign : ~Bits{0})), flip_(reversed ? kReversed : Bits{0}) {}

  ADJOINT_HD constexpr A operator()(A x) const {
    return std::bit_cast<A>(static_cast<Bits>((std::bit_cast<Bits>(x) & keep_) ^ flip_));
  }
  ADJOINT_HD constexpr A finish(A x) const {
    return std::bit_cast<A>(static_cast<Bits>(std::bit_cast<Bits>(x) ^ flip_));
  }

 private:
  using Bits = std::conditional_t<sizeof(A) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>>;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(A) - 1));
  static constexpr Bits kReversed = std::is_floating_point_v<A> ? kSign
                                    : std::is_same_v<A, bool>   ? Bits{1}
                                                                : static_cast<Bits>(~Bits{0});
  Bits keep_, flip_;
};

/// The terms that a norm sums, and the function of the sum.
template <class A>
struct Absolute {
  ADJOINT_HD A operator()(A x) const { return scalar::abs(x); }
  ADJOINT_HD A finish(A sum) const { return sum; }
};
template <class A>
struct Squared {
  ADJOINT_HD A operator()(A x) const { return x * x; }
  ADJOINT_HD A finish(A sum) const { return scalar::sqrt(sum); }
};
/// A p of 0 counts the elements that are not 0.
template <class A>
struct Power {
  A p;
  ADJOINT_HD A operator()(A x) const {
    if (p == A{0}) return x == A{0} ? A{0} : A{1};
    return std::pow(scalar::abs(x), p);
  }
  ADJOINT_HD A finish(A sum) const { return p == A{0} ? sum : std::pow(sum, A{1} / p); }
};

/// log(sum of exp(x)), as the largest x and the sum of exp(x - largest): each new largest rescales the sum. The
/// distance between equal numbers is 0, also between equal infinities.
template <class A, class Result>
struct LogSumExp {
  struct Acc {
    A largest, sum;
  };
  using Out = Result;

  ADJOINT_HD constexpr Acc identity() const { return {-std::numeric_limits<A>::infinity(), A{0}}; }
  ADJOINT_HD static Acc combine(const Acc& a, const Acc& b) {
    const bool more = b.largest > a.largest;
    const A high = scalar::select(more, b.largest, a.largest), low = scalar::select(more, a.largest, b.largest);
    const A shrink = scalar::exp(scalar::select(low == high, A{0}, low - high));
    return {high, scalar::select(more, b.sum, a.sum) + scalar::select(more, a.sum, b.sum) * shrink};
  }
  template <class T>
  ADJOINT_HD Acc add(const Acc& acc, T x) const {
    return combine(acc, Acc{convert<A>(x), A{1}});
  }
  ADJOINT_HD Acc add(const Acc& a, const Acc& b) const { return combine(a, b); }
  ADJOINT_HD constexpr Acc close(const Acc& acc) const { return acc; }
  ADJOINT_HD Out finish(const Acc& acc) const { return convert<Out>(acc.largest + scalar::log(acc.sum)); }
};

/// The moments of a set of numbers: their count; their mean, as mean + rest with twice A's digits; and m2, the sum of
/// squared distances from the mean.
template <class A>
struct Moments {
  A count, mean, rest, m2;
};
inline constexpr std::int64_t kMomentsFields = 4;
inline constexpr std::int64_t kMeanField = 1, kRestField = 2, kSquaresField = 3;

/// The mean a + b, as a number and its rounding error (Knuth's 2Sum).
template <class A>
ADJOINT_HD constexpr Moments<A> with_mean(A count, A a, A b, A m2) {
  const A mean = a + b, of_b = mean - a;
  return {count, mean, (a - (mean - of_b)) + (b - of_b), m2};
}

/// Moments from the sums of (x - pivot) and of (x - pivot)^2. The error of m2 grows with the pivot's distance from the
/// mean: a pivot that is one of n elements costs at most n roundings.
template <class A>
ADJOINT_HD constexpr Moments<A> moments_about(A count, A pivot, A sum, A squares) {
  const A step = sum / count;
  const A m2 = squares - sum * step;
  // Squares that overflow are infinite; an infinite or NaN element makes the sum infinite or NaN, and the result NaN.
  return with_mean(count, pivot, step, m2 >= A{0} ? m2 : m2 < A{0} ? A{0} : squares + (sum - sum));
}

/// Moments of two sets together (Chan, Golub, LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances", 1979).
template <class A>
ADJOINT_HD constexpr Moments<A> merge(const Moments<A>& a, const Moments<A>& b) {
  if (b.count == A{0}) return a;
  if (a.count == A{0}) return b;
  const A count = a.count + b.count;
  const A distance = (b.mean - a.mean) + (b.rest - a.rest);
  A share = A(0.5);  // nearly always, and the division is the most expensive part
  if (a.count != b.count) share = b.count / count;
  const A step = distance * share;
  return with_mean(count, a.mean, a.rest + step, a.m2 + b.m2 + distance * step * a.count);
}

/// Moments under construction. While up to a few tens of elements are added, `mean` is the first element, `rest` the
/// sum of distances from it, and m2 that of their squares.
template <class A>
struct KeepMoments {
  using Acc = Moments<A>;
  using Out = Moments<A>;

  ADJOINT_HD constexpr Acc identity() const { return {}; }
  ADJOINT_HD constexpr Acc combine(const Acc& a, const Acc& b) const { return merge(a, b); }
  template <class T>
  ADJOINT_HD constexpr Acc add(Acc acc, T x) const {
    const A value = convert<A>(x);
    if (acc.count == A{0}) acc.mean = value;
    const A distance = value - acc.mean;
    return {acc.count + A{1}, acc.mean, acc.rest + distance, acc.m2 + distance * distance};
  }
  ADJOINT_HD constexpr Acc add(const Acc& a, const Acc& b) const { return merge(a, b); }
  template <class T>
  requires(!std::is_same_v<T, Acc>) ADJOINT_HD constexpr Acc open(T x) const {
    return {A{0}, convert<A>(x), A{0}, A{0}};
  }
  template <class T>
  ADJOINT_HD constexpr Acc add_open(Acc acc, T x) const {
    const A distance = convert<A>(x) - acc.mean;
    return {acc.count + A{1}, acc.mean, acc.rest + distance, acc.m2 + distance * distance};
  }
  ADJOINT_HD constexpr Acc join(const Acc& a, const Acc& b) const {
    return {a.count + b.count, a.mean, a.rest + b.rest, a.m2 + b.m2};
  }
  ADJOINT_HD constexpr Acc close(const Acc& acc) const {
    return acc.count == A{0} ? acc : moments_about(acc.count, acc.mean, acc.rest, acc.m2);
  }
  ADJOINT_HD constexpr Out finish(const Acc& acc) const { return acc; }
};

/// m2 divided by a divisor, or the root of that.
template <class A, class Result>
struct Variance : KeepMoments<A> {
  using Out = Result;
  double divisor = 1.0;
  bool root = false;

  Variance(double by, bool rooted) : divisor(by), root(rooted) {}
  ADJOINT_HD Out finish(const Moments<A>& acc) const {
    const A variance = acc.m2 / static_cast<A>(divisor);
    return convert<Out>(root ? scalar::sqrt(variance) : variance);
  }
};

/// For one element: factor * g * (x - the mean), where the mean has twice A's digits.
template <class A, class T>
struct Centred {
  A factor;

  ADJOINT_HD T operator()(T x, A mean, A rest, T g) const {
    return convert<T>(factor * convert<A>(g) * ((convert<A>(x) - mean) - rest));
  }
};

}  // namespace adjoint::reduce
