// Transforms by Eigen's FFT on the CPU. Its numbers are vectors with one element each of several rows, which are so
// transformed together, each with the same result as alone.
#include <adjoint/core/base/parallel.h>
#include <adjoint/ops/signal/kernels.h>

#include <unsupported/Eigen/FFT>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numbers>
#include <vector>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;  // enough to outweigh handing a task to another thread
constexpr std::size_t kPlans = 8;                   // kept per thread, each with tables of about n numbers

template <class T>
struct Lanes {
  static constexpr std::int64_t kCount = 16 / sizeof(T);  // bytes of vectors that every 64-bit processor has
  typedef T Vector __attribute__((vector_size(16), may_alias));

  Vector v;

  Lanes() : v{} {}
  explicit Lanes(Vector vector) : v(vector) {}
  Lanes(double each) : v(Vector{} + static_cast<T>(each)) {}  // NOLINT(google-explicit-constructor)
  Lanes& operator+=(const Lanes& b) { return *this = *this + b; }
  Lanes& operator-=(const Lanes& b) { return *this = *this - b; }
  Lanes& operator*=(const Lanes& b) { return *this = *this * b; }
  Lanes operator-() const { return Lanes(-v); }
  friend Lanes operator+(const Lanes& a, const Lanes& b) { return Lanes(a.v + b.v); }
  friend Lanes operator-(const Lanes& a, const Lanes& b) { return Lanes(a.v - b.v); }
  friend Lanes operator*(const Lanes& a, const Lanes& b) { return Lanes(a.v * b.v); }
};

/// Unscaled transforms of n complex numbers, in either direction. Eigen's need n times the sum of n's prime factors. If
/// one of these is large, Bluestein's algorithm is used: x[t] w[t] convolved with conj w is the transform's conj w[k]
/// X[k], with w[t] = exp(-pi i t^2 / n), by transforms of a power of two (Bluestein: "A linear filtering approach to
/// the computation of discrete Fourier transform", 1970).
template <class T>
class ComplexTransform {
 public:
  using Bin = std::complex<Lanes<T>>;

  explicit ComplexTransform(std::int64_t n) : n_(n) {
    fft_.SetFlag(Eigen::FFT<Lanes<T>>::Unscaled);
    if (largest_prime_factor(n) <= kMostPrime) return;
    length_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * n - 1)));
    for (std::vector<Bin>* each : {&chirp_, &filter_, &product_, &spectrum_}) each->resize(at(length_));
    for (std::int64_t t = 0; t < n; ++t) {
      // t^2 modulo 2 n, so that the angle keeps all its digits. n is at most 2^30.
      const double angle = -std::numbers::pi * static_cast<double>(t * t % (2 * n)) / static_cast<double>(n);
      chirp_[at(t)] = {Lanes<T>(std::cos(angle)), Lanes<T>(std::sin(angle))};
      product_[at(t)] = conj(chirp_[at(t)]) * Lanes<T>(1.0 / static_cast<double>(length_));
      if (t > 0) product_[at(length_ - t)] = product_[at(t)];
    }
    chirp_.resize(at(n));
    fft_.fwd(filter_.data(), product_.data(), length_);
  }

  void forward(Bin* to, const Bin* from) {
    if (n_ == 1) {  // Eigen does not support it
      to[0] = from[0];
    } else if (chirp_.empty()) {
      fft_.fwd(to, from, n_);
    } else {
      convolve(to, from, [](const Bin& x) { return x; });
    }
  }
  void inverse(Bin* to, const Bin* from) {
    if (n_ == 1) {
      to[0] = from[0];
    } else if (chirp_.empty()) {
      fft_.inv(to, from, n_);
    } else {
      convolve(to, from, [](const Bin& x) { return conj(x); });
    }
  }

 private:
  // For larger prime factors, three transforms of more than twice the length take less time.
  static constexpr std::int64_t kMostPrime = 61;

  static std::int64_t largest_prime_factor(std::int64_t n) {
    std::int64_t largest = 1;
    for (std::int64_t p = 2; p * p <= n; ++p) {
      for (; n % p == 0; n /= p) largest = p;
    }
    return std::max(largest, n);
  }

  // side: the identity, or the conjugate, which makes the inverse transform.
  template <class Side>
  void convolve(Bin* to, const Bin* from, const Side& side) {
    for (std::int64_t t = 0; t < n_; ++t) product_[at(t)] = side(from[t]) * chirp_[at(t)];
    std::fill(product_.begin() + n_, product_.end(), Bin());
    fft_.fwd(spectrum_.data(), product_.data(), length_);
    for (std::int64_t k = 0; k < length_; ++k) spectrum_[at(k)] = spectrum_[at(k)] * filter_[at(k)];
    fft_.inv(product_.data(), spectrum_.data(), length_);
    for (std::int64_t k = 0; k < n_; ++k) to[k] = side(product_[at(k)] * chirp_[at(k)]);
  }

  static std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

  std::int64_t n_, length_ = 0;
  Eigen::FFT<Lanes<T>> fft_;
  std::vector<Bin> chirp_, filter_, product_, spectrum_;  // empty if Eigen's transform is used alone
};

/// Transforms of n real numbers, for Lanes::kCount rows together. An even n is treated as n / 2 complex numbers x[2 t]
/// + i x[2 t + 1]. Their transform Z gives X[k] = E + exp(-2 pi i k / n) O, where E and O are the transforms of the
/// even and the odd elements: 2 E[k] = Z[k] + conj Z[n / 2 - k] and 2 i O[k] = Z[k] - conj Z[n / 2 - k].
template <class T>
class Transform {
 public:
  static constexpr std::int64_t kRows = Lanes<T>::kCount;

  explicit Transform(std::int64_t n)
      : n_(n), bins_(n / 2 + 1), length_(n % 2 == 0 ? n / 2 : n), fft_(length_), twiddles_(at(bins_)) {
    for (std::int64_t k = 0; k < bins_; ++k) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      twiddles_[at(k)] = {Lanes<T>(std::cos(angle)), Lanes<T>(std::sin(angle))};
    }
    for (std::vector<Bin>* each : {&sequence_, &spectrum_}) each->resize(at(length_ + 1));
    // Creates Eigen's tables here, so that nothing stays half constructed if memory is short.
    run(false);
    run(true);
  }

  /// Transforms `rows` sequences, at most kRows, to their bins, multiplying bins that are their own conjugates by
  /// `own`, others by `shared`.
  void forward(const T* from, std::complex<T>* to, std::int64_t rows, T own, T shared) {
    scatter(from, rows);
    run(false);
    if (n_ % 2 == 0) split();
    const T* const bins = lanes(spectrum_);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::complex<T>* const out = to + row * bins_;
      for (std::int64_t k = 0; k < bins_; ++k) {
        const T* const bin = bins + 2 * k * kRows + row;
        out[k] = is_real(k) ? std::complex<T>(bin[0] * own) : std::complex<T>(bin[0] * shared, bin[kRows] * shared);
      }
    }
  }

  /// The sums over both halves of the bins, weighted in the same way.
  void inverse(const std::complex<T>* from, T* to, std::int64_t rows, T own, T shared) {
    T* const bins = lanes(spectrum_);
    for (std::int64_t k = 0; k < bins_; ++k) {
      const T weight = is_real(k) ? own : shared;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::complex<T> bin = from[row * bins_ + k];
        bins[2 * k * kRows + row] = bin.real() * weight;
        bins[(2 * k + 1) * kRows + row] = is_real(k) ? T(0) : bin.imag() * weight;
      }
    }
    n_ % 2 == 0 ? join() : mirror();
    run(true);
    gather(to, rows);
  }

 private:
  using Bin = std::complex<Lanes<T>>;

  void run(bool back) {
    back ? fft_.inverse(sequence_.data(), spectrum_.data()) : fft_.forward(spectrum_.data(), sequence_.data());
  }

  static T* lanes(std::vector<Bin>& bins) { return reinterpret_cast<T*>(bins.data()); }
  bool is_real(std::int64_t k) const { return k == 0 || 2 * k == n_; }
  // The position of element t of a sequence: complex numbers are two real ones, or one and zero.
  std::int64_t place(std::int64_t t) const { return (n_ % 2 == 0 ? t : 2 * t) * kRows; }

  void scatter(const T* from, std::int64_t rows) {
    T* const to = lanes(sequence_);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t t = 0; t < n_; ++t) to[place(t) + row] = from[row * n_ + t];
    }
    if (n_ % 2 == 0) return;
    for (std::int64_t t = 0; t < n_; ++t) sequence_[at(t)].imag(0.0);
  }

  void gather(T* to, std::int64_t rows) {
    const T* const from = lanes(sequence_);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t t = 0; t < n_; ++t) to[row * n_ + t] = from[place(t) + row];
    }
  }

  // Z in spectrum_ becomes X.
  void split() {
    spectrum_[at(length_)] = spectrum_[0];
    for (std::int64_t k = 0; k <= length_ - k; ++k) {
      const Bin low = spectrum_[at(k)], high = conj(spectrum_[at(length_ - k)]);
      const Bin even = (low + high) * Lanes<T>(0.5);
      const Bin odd = times_minus_i(low - high) * Lanes<T>(0.5) * twiddles_[at(k)];
      spectrum_[at(k)] = even + odd;
      spectrum_[at(length_ - k)] = conj(even - odd);
    }
  }

  // X becomes 2 Z.
  void join() {
    for (std::int64_t k = 0; k <= length_ - k; ++k) {
      const Bin low = spectrum_[at(k)], high = conj(spectrum_[at(length_ - k)]);
      const Bin even = low + high, odd = times_minus_i(conj(low - high) * twiddles_[at(k)]);
      spectrum_[at(k)] = even + conj(odd);
      spectrum_[at(length_ - k)] = conj(even) - odd;
    }
  }

  // Fills in the half that is not stored.
  void mirror() {
    for (std::int64_t k = 1; k < bins_; ++k) spectrum_[at(n_ - k)] = conj(spectrum_[at(k)]);
  }

  static std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }
  static Bin times_minus_i(const Bin& x) { return {x.imag(), -x.real()}; }

  std::int64_t n_, bins_, length_;  // length_ is that of the complex transform
  ComplexTransform<T> fft_;
  std::vector<Bin> twiddles_, sequence_, spectrum_;
};

// One per thread, because it has its own memory.
template <class T>
Transform<T>& transform_of(std::int64_t n) {
  thread_local std::map<std::int64_t, Transform<T>> made;
  const auto found = made.find(n);
  if (found != made.end()) return found->second;
  if (made.size() == kPlans) made.clear();
  return made.try_emplace(n, n).first->second;
}

// body(transform, row, count) for groups of rows.
template <class T, class F>
void each_group(std::int64_t n, std::int64_t rows, const F& body) {
  constexpr std::int64_t kRows = Transform<T>::kRows;
  const std::int64_t groups = (rows + kRows - 1) / kRows;
  parallel_ranges(groups, std::max<std::int64_t>(1, kElementsPerTask / (n * kRows)),
                  [&](std::int64_t begin, std::int64_t end) {
                    Transform<T>& transform = transform_of<T>(n);
                    for (std::int64_t row = begin * kRows; row < std::min(end * kRows, rows); row += kRows) {
                      body(transform, row, std::min(kRows, rows - row));
                    }
                  });
}

template <class T>
void forward(const Tensor& in, Tensor& out, const FftAttr& attr) {
  const T* const from = in.data<T>();
  auto* const to = reinterpret_cast<std::complex<T>*>(out.mutable_data<T>());
  const auto own = static_cast<T>(attr.scale), shared = static_cast<T>(attr.doubled ? 2 * attr.scale : attr.scale);
  each_group<T>(attr.n, in.numel() / attr.n, [&](Transform<T>& transform, std::int64_t row, std::int64_t count) {
    transform.forward(from + row * attr.n, to + row * attr.bins(), count, own, shared);
  });
}

template <class T>
void inverse(const Tensor& in, Tensor& out, const FftAttr& attr) {
  const auto* const from = reinterpret_cast<const std::complex<T>*>(in.data<T>());
  T* const to = out.mutable_data<T>();
  // The transform sums both halves.
  const auto own = static_cast<T>(attr.scale), shared = static_cast<T>(attr.doubled ? attr.scale : attr.scale / 2);
  each_group<T>(attr.n, out.numel() / attr.n, [&](Transform<T>& transform, std::int64_t row, std::int64_t count) {
    transform.inverse(from + row * attr.bins(), to + row * attr.n, count, own, shared);
  });
}

}  // namespace

void rfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  out.dtype() == kFloat64 ? forward<double>(in[0], out, attr) : forward<float>(in[0], out, attr);
}

void irfft(std::span<const Tensor> in, Tensor& out, const FftAttr& attr) {
  out.dtype() == kFloat64 ? inverse<double>(in[0], out, attr) : inverse<float>(in[0], out, attr);
}

}  // namespace adjoint::cpu
