#include <adjoint/core/convert.h>
#include <adjoint/core/parallel.h>
#include <adjoint/optim/kernels.h>

namespace adjoint::optim::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;

template <bool kMaster, bool kParameter, class T, class Rule>
void update_range(const Rule& rule, const Item& item, std::int64_t begin, std::int64_t end) {
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
    rule(p, convert<C>(gradient[i]), s);
    for (int n = 0; n < kState; ++n) state[n][i] = s[n];
    if constexpr (kMaster) master[i] = p;
    if constexpr (kParameter) parameter[i] = convert<T>(p);
  }
}

template <class T, class Rule>
void update_range(const Rule& rule, const Item& item, std::int64_t begin, std::int64_t end) {
  if (item.master == nullptr) return update_range<false, true, T>(rule, item, begin, end);
  if (item.parameter == nullptr) return update_range<true, false, T>(rule, item, begin, end);
  update_range<true, true, T>(rule, item, begin, end);
}

}  // namespace

template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  visit_floating(batch.dtype, [&]<class T>() {
    const Rule<compute_t<T>> rule(attr);
    for (const Item& item : batch.items) {
      parallel_ranges(item.numel, kGrain,
                      [&](std::int64_t begin, std::int64_t end) { update_range<T>(rule, item, begin, end); });
    }
  });
}

ADJOINT_INSTANTIATE_UPDATES

}  // namespace adjoint::optim::cpu
