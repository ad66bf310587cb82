// You are at stop 6 of 7 of the README's reading path, an optimiser: this is the loop over all elements.
// examples/common/arithmetic.cpp comes next.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim::cpu {
namespace {

constexpr std::int64_t kUpdateGrain = 16384;

template <bool kMaster, bool kParameter, class T, class Rule>
void update_range(const Rule& rule, compute_t<T> factor, const Item& item, std::int64_t begin, std::int64_t end) {
  using C = compute_t<T>;
  constexpr int kState = Rule::kState;
  T* __restrict parameter = static_cast<T*>(item.parameter);
  const T* __restrict gradient = static_cast<const T*>(item.gradient);
  C* __restrict master = static_cast<C*>(item.master);
  C* const state[kMaxState] = {static_cast<C*>(item.state[0]), static_cast<C*>(item.state[1]),
                               static_cast<C*>(item.state[2])};
  // The compiler cannot see that a parameter, its gradient and its state do not overlap.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::int64_t i = begin; i < end; ++i) {
    C p{};
    if constexpr (kParameter) p = convert<C>(parameter[i]);
    if constexpr (kMaster) p = !kParameter || convert<C>(convert<T>(master[i])) == p ? master[i] : p;
    C s[kMaxState];
    for (int n = 0; n < kState; ++n) s[n] = state[n][i];
    const auto g = convert<C>(gradient[i]);
    rule(p, factor == C(1) ? g : g * factor, s);
    for (int n = 0; n < kState; ++n) state[n][i] = s[n];
    if constexpr (kMaster) master[i] = p;
    if constexpr (kParameter) parameter[i] = convert<T>(p);
  }
}

template <class T, class Rule>
void update_range(const Rule& rule, compute_t<T> factor, const Item& item, std::int64_t begin, std::int64_t end) {
  if (item.master == nullptr) return update_range<false, true, T>(rule, factor, item, begin, end);
  if (item.parameter == nullptr) return update_range<true, false, T>(rule, factor, item, begin, end);
  update_range<true, true, T>(rule, factor, item, begin, end);
}

}  // namespace

template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  visit_floating(batch.dtype, [&]<class T>() {
    using C = compute_t<T>;
    const Rule<C> plain(attr);
    for (const Item& item : batch.items) {
      if (batch.gate) item.gated->decide<Rule<C>>(attr, *batch.gate);
      if (batch.gate && item.gated->skips != 0) continue;
      const Rule<C>& rule = batch.gate ? *reinterpret_cast<const Rule<C>*>(item.gated->rule) : plain;
      const C factor = batch.gate ? static_cast<C>(item.gated->factor) : C(1);
      parallel_ranges(item.numel, kUpdateGrain,
                      [&](std::int64_t begin, std::int64_t end) { update_range<T>(rule, factor, item, begin, end); });
    }
  });
}

ADJOINT_INSTANTIATE_UPDATES

}  // namespace adjoint::optim::cpu
