#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/optim/clip_kernels.h>

#include <atomic>

namespace adjoint::optim::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;
constexpr std::int64_t kLanes = 8;

// An element that is not finite makes `odd` NaN.
template <class T, class Element>
double norm_of_range(const T* data, const Norm& rule, std::int64_t begin, std::int64_t end, const Element& element,
                     double& odd) {
  double lanes[kLanes] = {}, odds[kLanes] = {};
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = convert<double>(data[i + lane]);
      lanes[lane] = rule.combine(lanes[lane], element(value));
      odds[lane] += value - value;
    }
  }
  for (std::int64_t lane = 0; i < end; ++i, ++lane) {
    const auto value = convert<double>(data[i]);
    lanes[lane] = rule.combine(lanes[lane], element(value));
    odds[lane] += value - value;
  }
  double total = lanes[0];
  for (std::int64_t lane = 1; lane < kLanes; ++lane) total = rule.combine(total, lanes[lane]);
  for (const double part : odds) odd += part;
  return total;
}

// Replaces every element by f(value).
template <class F>
void map(const std::vector<Piece>& pieces, const F& f) {
  for (const Piece& piece : pieces) {
    visit_floating(piece.dtype, [&]<class T>() {
      auto* const data = static_cast<T*>(piece.data);
      parallel_ranges(piece.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) data[i] = convert<T>(f(convert<compute_t<T>>(data[i])));
      });
    });
  }
}

}  // namespace

void norm(const std::vector<Piece>& pieces, const Norm& rule, double* norm) {
  double total = 0.0;
  for (const Piece& piece : pieces) {
    const auto ranges = static_cast<std::size_t>((piece.numel + kGrain - 1) / kGrain);
    std::vector<double> parts(ranges), odds(ranges);
    visit_floating(piece.dtype, [&]<class T>() {
      const auto* const data = static_cast<const T*>(piece.data);
      parallel_ranges(piece.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
        const auto range = static_cast<std::size_t>(begin / kGrain);
        double &part = parts[range], &odd = odds[range];
        if (rule.p == 2.0) {
          part = norm_of_range(
              data, Norm{2.0}, begin, end, [](double value) { return value * value; }, odd);
        } else {
          part = norm_of_range(
              data, rule, begin, end, [&](double value) { return rule.element(value); }, odd);
        }
      });
    });
    for (const double part : parts) total = rule.combine(total, part);
    for (const double odd : odds) {
      if (rule.found_inf != nullptr && odd != 0.0) *rule.found_inf = 1.0F;
    }
  }
  *norm = rule.finish(total);
}

void scale(const std::vector<Piece>& pieces, const double* norm, double max_norm) {
  const double factor = clip_factor(*norm, max_norm);
  if (factor == 1.0) return;
  map(pieces, [&]<class C>(C value) { return value * static_cast<C>(factor); });
}

void clamp(const std::vector<Piece>& pieces, double bound) {
  map(pieces, [&]<class C>(C value) {
    const C limit = static_cast<C>(bound);
    return value > limit ? limit : value < -limit ? -limit : value;
  });
}

void unscale(const std::vector<Piece>& pieces, const float* scale, float* found_inf) {
  for (const Piece& piece : pieces) {
    visit_floating(piece.dtype, [&]<class T>() {
      auto* const data = static_cast<T*>(piece.data);
      std::atomic<bool> all_finite = true;
      parallel_ranges(piece.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
        bool finite = true;
        for (std::int64_t i = begin; i < end; ++i) {
          const auto value = convert<compute_t<T>>(data[i]);
          finite = finite && is_finite(value);
          data[i] = convert<T>(value * static_cast<compute_t<T>>(inverse(scale)));
        }
        if (!finite) all_finite = false;
      });
      if (!all_finite) *found_inf = 1.0F;
    });
  }
}

}  // namespace adjoint::optim::cpu
