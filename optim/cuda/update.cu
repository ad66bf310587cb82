#include <adjoint/core/tensor/convert.h>
#include <adjoint/optim/kernels.h>
#include <adjoint/optim/cuda/batched.cuh>

namespace adjoint::optim::cuda {
namespace {

using adjoint::cuda::launch;
using adjoint::cuda::LaunchGeometry;

// One thread per entry.
template <class Rule>
__global__ void decide_kernel(const __grid_constant__ Table<Item> table, typename Rule::Attr attr,
                              const typename Rule::Attr* captured, Gate gate) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i < table.count) table.entries[i].gated->template decide<Rule>(captured != nullptr ? *captured : attr, gate);
}

template <class T, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Table<Item> table, Rule rule, const Rule* captured) {
  using C = compute_t<T>;
  if (captured != nullptr) rule = *captured;
  std::int64_t begin, end;
  const Item& item = table.find(begin, end);
  C factor(1);
  if (item.gated != nullptr) {
    if (item.gated->skips != 0) return;
    rule = *reinterpret_cast<const Rule*>(item.gated->rule);
    factor = static_cast<C>(item.gated->factor);
  }
  T* const parameters = static_cast<T*>(item.parameter);
  const T* const gradients = static_cast<const T*>(item.gradient);
  C* const masters = static_cast<C*>(item.master);
  C* states[kMaxState];
#pragma unroll
  for (int n = 0; n < Rule::kState; ++n) states[n] = static_cast<C*>(item.state[n]);
  // Loads all whole packs before the first store, because a store might change values that are loaded after it.
  constexpr int V = static_cast<int>(16 / sizeof(C));
  bool aligned = is_aligned<T, V>(parameters) && is_aligned<T, V>(gradients) && is_aligned<C, V>(masters);
#pragma unroll
  for (int n = 0; n < Rule::kState; ++n) aligned = aligned && is_aligned<C, V>(states[n]);
  for (std::int64_t i = begin + threadIdx.x * V; i < end; i += kThreads * V) {
    const int count = static_cast<int>(std::min<std::int64_t>(V, end - i));
    const bool whole = aligned && count == V;
    Pack<T, V> parameter{};
    Pack<C, V> master{}, state[kMaxState];
    if (parameters != nullptr) parameter = load_pack<V>(parameters + i, count, whole);
    if (masters != nullptr) master = load_pack<V>(masters + i, count, whole);
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) state[n] = load_pack<V>(states[n] + i, count, whole);
    const Pack<T, V> gradient = load_pack<V>(gradients + i, count, whole);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      C value = convert<C>(parameter.values[k]);
      const C kept = master.values[k];
      if (masters != nullptr && (parameters == nullptr || convert<C>(convert<T>(kept)) == value)) value = kept;
      C own[kMaxState];
#pragma unroll
      for (int n = 0; n < Rule::kState; ++n) own[n] = state[n].values[k];
      const C slope = convert<C>(gradient.values[k]);
      rule(value, factor == C(1) ? slope : slope * factor, own);
#pragma unroll
      for (int n = 0; n < Rule::kState; ++n) state[n].values[k] = own[n];
      master.values[k] = value;
      parameter.values[k] = convert<T>(value);
    }
#pragma unroll
    for (int n = 0; n < Rule::kState; ++n) store_pack(state[n], states[n] + i, count, whole);
    if (masters != nullptr) store_pack(master, masters + i, count, whole);
    if (parameters != nullptr) store_pack(parameter, parameters + i, count, whole);
  }
}

}  // namespace

template <template <class> class Rule>
void update(const Batch& batch, const typename Rule<float>::Attr& attr) {
  visit_floating(batch.dtype, [&]<class T>() {
    using R = Rule<compute_t<T>>;
    for_each_table(batch.items, kEvery, [&](const Table<Item>& table, const LaunchGeometry& geometry) {
      const void* const captured = batch.rule.device;
      if (batch.gate) {
        launch(decide_kernel<R>, {dim3(1), dim3(kMaxEntries)}, batch.device.index, table, attr,
               static_cast<const typename R::Attr*>(captured), *batch.gate);
      }
      launch(update_kernel<T, R>, geometry, batch.device.index, table, R(attr),
             batch.gate ? nullptr : static_cast<const R*>(captured));
    });
  });
}

ADJOINT_INSTANTIATE_UPDATES

}  // namespace adjoint::optim::cuda
